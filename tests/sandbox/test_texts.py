"""What is written for others to read: hints for the model, the macOS profile, bubblewrap's command line."""

from pathlib import Path

import pytest

from understudy.sandbox import Command, CommandResult, Containment, direct, wrapping
from understudy.sandbox.denial import hint, likely_denied, network_hint, remark

WRITING = Containment("workspace-write", ("/work",), protected=(".git", ".codex"))
READING = Containment("read-only")


class TestDenial:
    @pytest.mark.parametrize(
        "output",
        [
            "touch: cannot touch '/etc/x': Read-only file system",
            "open: Permission denied",
            "socket: Operation not permitted",
            "curl: (6) Could not resolve host: example.org",
            "mv: cannot move '.git': Device or resource busy",
        ],
    )
    def test_a_failure_that_speaks_of_refusal_is_taken_for_one(self, output: str) -> None:
        assert likely_denied(CommandResult(1, 0.1), output, WRITING)

    @pytest.mark.parametrize(
        ("result", "output", "containment"),
        [
            (CommandResult(1, 0.1), "1 failed, 3 passed", WRITING),
            (CommandResult(0, 0.1), "permission denied, but all is well", WRITING),
            (CommandResult(1, 0.1), "permission denied", None),
            (CommandResult(1, 0.1), "permission denied", Containment("danger-full-access")),
            (CommandResult(124, 0.1, timed_out=True), "permission denied", WRITING),
            (CommandResult(125, 0.1, setup_error="no sandbox"), "", WRITING),
            (CommandResult(137, 0.1, signal=9, lost="the helper died"), "permission denied", WRITING),
            (CommandResult(127, 0.1, spawn_error="No such file or directory (os error 2)"), "", WRITING),
        ],
    )
    def test_other_endings_are_not(self, result: CommandResult, output: str, containment: Containment | None) -> None:
        assert not likely_denied(result, output, containment)
        assert hint(result, output, containment) is None

    def test_the_network_is_named_where_a_command_failed_for_it_or_waited_for_it(self) -> None:
        failed, late, well = CommandResult(1, 0.1), CommandResult(124, 60.0, timed_out=True), CommandResult(0, 0.1)
        said = "npm error code EAI_AGAIN"
        for result, output, user in (
            (failed, said, None),
            (failed, "", "npm install"),
            (late, "", "npm install"),
            (late, said, None),
        ):
            text = network_hint(result, output, WRITING, user=user)
            assert text is not None
            assert "no network" in text
            assert "[understudy.sandbox]" in text
            assert "[[policy.rules]]" in text
        loopback = network_hint(failed, said, Containment("workspace-write", network="loopback"), user=None)
        assert loopback is not None
        assert "only servers that it starts itself" in loopback
        for result, output, user in ((well, said, "npm install"), (failed, "1 failed", None), (late, "", None)):
            assert network_hint(result, output, WRITING, user=user) is None
        online = Containment("workspace-write", network="on")
        assert network_hint(failed, said, online, user="npm install") is None
        assert not likely_denied(failed, said, online)  # the sandbox refused nothing
        assert network_hint(failed, said, None, user="npm install") is None

    def test_death_by_the_filter_is_one_without_a_word(self) -> None:
        assert likely_denied(CommandResult(159, 0.1, signal=31), "", WRITING)

    def test_the_hint_says_what_is_refused_and_what_can_be_done(self) -> None:
        text = hint(CommandResult(1, 0.1), "Read-only file system", WRITING)
        assert text is not None
        for words in ("/work", "/tmp", ".git, .codex", "Network: none", "outside the sandbox"):
            assert words in text

    def test_a_remark_says_what_the_exit_code_does_not_tell(self) -> None:
        assert remark(CommandResult(137, 0.1, signal=9)) is None
        memory = remark(CommandResult(137, 0.1, signal=9, limit="memory"))
        assert memory == "The command was ended because it used more memory than the limit of the sandbox allows."
        lost = remark(CommandResult(137, 0.1, signal=9, lost="the helper died"))
        assert lost == "How the command ended is not known, and nothing of it runs any more: the helper died."

    def test_the_hint_of_a_read_only_sandbox_names_no_roots(self) -> None:
        text = hint(CommandResult(1, 0.1), "Read-only file system", READING)
        assert text is not None
        assert "everything else is read-only" in text
        assert "Protected" not in text


class TestSeatbelt:
    def test_writing_is_allowed_beneath_roots_but_for_protected_names(self, tmp_path: Path) -> None:
        text, parameters = direct.profile(Containment("workspace-write", protected=(".git",)), (str(tmp_path),))
        assert parameters == {"ROOT_0": str(tmp_path), "ROOT_0_KEEP_0": str(tmp_path / ".git")}
        assert (
            '(allow file-write* (require-all (subpath (param "ROOT_0")) '
            '(require-not (subpath (param "ROOT_0_KEEP_0"))) (require-not (literal (param "ROOT_0_KEEP_0")))))'
        ) in text

    def test_the_profile_denies_by_default_and_has_balanced_brackets(self) -> None:
        for network in ("off", "loopback", "on"):
            text, _ = direct.profile(
                Containment("workspace-write", network=network, masked=("/a",), protected=(".git", "/b")), ("/w",)
            )
            assert text.startswith("(version 1)\n(deny default)\n")
            assert text.count("(") == text.count(")")

    def test_a_path_is_never_part_of_the_profile(self) -> None:
        evil = '/w")) (allow default) ("'
        text, parameters = direct.profile(Containment("workspace-write", masked=(evil,), private_tmp=evil), (evil,))
        assert evil not in text
        assert evil in parameters.values()

    def test_the_network_is_closed_unless_it_is_opened(self) -> None:
        assert "network" not in direct.profile(READING, ())[0]
        assert '(remote ip "localhost:*")' in direct.profile(Containment("read-only", network="loopback"), ())[0]
        assert "(allow network-outbound)" in direct.profile(Containment("read-only", network="on"), ())[0]

    def test_the_private_folder_is_allowed_after_the_mask_it_lies_in(self) -> None:
        text, _ = direct.profile(Containment("workspace-write", masked=("/store",), private_tmp="/store/tmp"), ())
        assert text.index("MASK_0") < text.index("PRIVATE_TMP")

    def test_the_program_is_named_by_its_full_path(self) -> None:
        words = direct.command_line(("ls", "-l"), READING, ())
        assert words[:2] == ("/usr/bin/sandbox-exec", "-p")
        assert words[-3:] == ("--", "ls", "-l")


class TestBubblewrap:
    def line(self, containment: Containment, *, as_root: bool = False) -> str:
        command = Command(("ls", "-l"), "/w", {}, None, containment)
        roots = containment.writable_roots
        names = wrapping.kept_names(containment, roots)
        words, at = wrapping.command_line(
            "bwrap",
            command,
            containment,
            roots=roots,
            names=names,
            workspace="/w",
            private_tmp=containment.private_tmp,
            as_root=as_root,
            seccomp=4,
        )
        return " ".join((*words[:at], *(f"MISSING {path}" for path in names.missing), *words[at:]))

    def test_everything_is_read_only_but_the_roots(self, tmp_path: Path) -> None:
        (tmp_path / ".git").mkdir()
        line = self.line(Containment("workspace-write", (str(tmp_path),), protected=(".git", ".codex"), private_tmp="/p"))
        assert "--ro-bind / / " in line
        assert f"--bind {tmp_path} {tmp_path} --ro-bind {tmp_path}/.git {tmp_path}/.git" in line
        assert f"{tmp_path}/.git MISSING {tmp_path}/.codex --seccomp" in line
        assert "--bind /p /tmp" in line
        assert "--proc /proc --remount-ro /proc" in line

    def test_the_network_is_cut_unless_it_is_open(self) -> None:
        assert "--unshare-net" in self.line(READING)
        assert "--unshare-net" in self.line(Containment("read-only", network="loopback"))
        assert "--unshare-net" not in self.line(Containment("read-only", network="on"))

    def test_root_is_called_nobody_inside(self) -> None:
        assert "--uid 65534 --gid 65534" in self.line(READING, as_root=True)
        assert "--uid" not in self.line(READING)
