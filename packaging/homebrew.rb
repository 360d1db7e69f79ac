# A template: `make release` puts in the sdist of the release and the locked sdists of what it needs, and writes dist/understudy-codex.rb.
class UnderstudyCodex < Formula
  include Language::Python::Virtualenv

  desc "Coding agent that other programs call over MCP"
  homepage "https://pypi.org/project/understudy-codex/"
  url "@SDIST@"
  sha256 "@SHA256@"
  license "Apache-2.0"

  depends_on "rust" => :build # for rpds-py
  depends_on "python@3.13"

@RESOURCES@

  def install
    virtualenv_install_with_resources
  end

  test do
    (testpath/".codex/config.toml").write <<~TOML
      model_provider = "scripted"
    TOML
    assert_match version.to_s, shell_output("#{bin}/understudy --version")
    assert_match "scripted model", shell_output("#{bin}/understudy-codex exec --skip-git-repo-check hi")
  end
end
