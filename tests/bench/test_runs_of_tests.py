"""Which commands a report calls test runs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.bench.runs_of_tests import MOST_SCRIPT, RUNNERS, RunOfTests, find_test_run

RUNS = {
    "pytest -q": "pytest",
    "cd backend && pytest -q tests/unit": "pytest",
    "PYTHONPATH=. LANG=C pytest": "pytest",
    "env -u HOME A=1 pytest": "pytest",
    "python -m pytest": "pytest",
    "python3.11 -W error -m pytest tests": "pytest",
    ".venv/bin/python -m unittest discover": "unittest",
    "uv run pytest": "pytest",
    "uv run --with x -m pytest": "pytest",
    "poetry run python -m pytest": "pytest",
    "coverage run --source src -m pytest": "pytest",
    "timeout -k 5 60 nice -n 5 pytest": "pytest",
    "python manage.py test app": "manage.py test",
    "tox -e py311": "tox",
    "cargo +nightly test --all": "cargo test",
    "cargo nextest run": "cargo nextest",
    "go test ./...": "go test",
    "npm test": "npm test",
    "npm run test:unit -- --watch=false": "npm run test:unit",
    "npm --prefix web test": "npm test",
    "yarn test": "yarn test",
    "yarn jest src": "jest",
    "pnpm --filter web test": "pnpm test",
    "npx -y vitest run": "vitest",
    "mvn -q -pl core test": "mvn test",
    "./gradlew :app:test": "gradlew :app:test",
    "make -C lib -j4 test": "make test",
    "set -e\ncd build\nctest --output-on-failure": "ctest",
    "bundle exec rspec": "rspec",
    "php -d x=1 vendor/bin/phpunit": "phpunit",
    "dotnet test -c Release": "dotnet test",
    "node --test": "node --test",
    "bash -c 'pytest -q'": "pytest",
    "(cd a && pytest)": "pytest",
    "pytest > out.txt 2>&1": "pytest",
    "echo 'a # b' && pytest # and no more": "pytest",
}

DECIDES_NOTHING = (
    "pytest | tail -5",
    "pytest; echo done",
    "pytest || true",
    "pytest &",
    "for i in 1 2; do pytest -x; done",
    "if pytest; then echo fine; fi",
    "pytest\nrm -rf out",
)

NO_RUNS = (
    "echo pytest",
    "grep -rn pytest .",
    "pip install pytest",
    "pytest --collect-only",
    "which pytest",
    "npm run build",
    "npm install",
    "cargo build",
    "go build ./...",
    "make -C test all",
    "cat > run.sh <<'EOF'\npytest\nEOF\nls",
    "cat <<-EOF > x\n\tpytest\n\tEOF\n",
    "echo 'not closed",
    "ls tests # pytest",
    "echo > pytest",
    "",
)


@pytest.mark.parametrize(("script", "runner"), RUNS.items())
def test_a_run_is_found_behind_what_people_put_before_it(script: str, runner: str) -> None:
    assert find_test_run(("bash", "-lc", script)) == RunOfTests(runner, decides=True)


@pytest.mark.parametrize("script", DECIDES_NOTHING)
def test_an_exit_code_that_is_not_the_runs_own_decides_nothing(script: str) -> None:
    assert find_test_run(("bash", "-lc", script)) == RunOfTests("pytest", decides=False)


@pytest.mark.parametrize("script", NO_RUNS)
def test_what_only_names_a_runner_is_no_run(script: str) -> None:
    assert find_test_run(("bash", "-lc", script)) is None


@pytest.mark.parametrize("shell", ["/bin/sh -c", "zsh -l -c", "bash -o pipefail -c", "env bash -ec"])
def test_every_form_of_a_shell_is_looked_into(shell: str) -> None:
    assert find_test_run((*shell.split(), "go test")) == RunOfTests("go test", decides=True)


def test_a_script_without_end_is_left_alone() -> None:
    assert find_test_run(("bash", "-c", "true;" * MOST_SCRIPT + "pytest")) is None


WORDS = st.sampled_from([*sorted(RUNNERS), "test", "run", "-m", "-c", "bash", "uv", "env", "python", "A=1", "--", "cd", "x"])
JOINTS = st.sampled_from([" ", " && ", "; ", " | ", "\n", " || ", "'", '"', "\\", "$(", ")", "<<E ", "#", "&"])


@pytest.mark.slow
@given(st.lists(st.tuples(WORDS | st.text(max_size=5), JOINTS), max_size=30))
def test_any_script_is_read_to_its_end(pieces: list[tuple[str, str]]) -> None:
    script = "".join(word + joint for word, joint in pieces)
    run = find_test_run(("bash", "-lc", script))
    assert run is None or run.runner


@pytest.mark.slow
@given(st.lists(WORDS | st.text(max_size=5), max_size=8))
def test_any_argv_is_read_to_its_end(argv: list[str]) -> None:
    run = find_test_run(argv)
    assert run is None or run.runner
