"""Tasks as files and folders, and what is said of those that are wrong."""

import base64
from pathlib import Path

import pytest

from understudy.bench.tasks import SHIPPED, TaskFile, load_tasks
from understudy.errors import BadRequest

SMALLEST = 'prompt = "Do it."\ncheck = "true"\n'


def test_a_task_is_a_file_or_a_folder(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text(SMALLEST + '[files]\n"a/b.txt" = "x"\n"c" = {base64 = "/w==", executable = true}\n')
    (tmp_path / "two" / "files" / "sub").mkdir(parents=True)
    (tmp_path / "two" / "hidden").mkdir()
    (tmp_path / "two" / "task.toml").write_text('prompt = "Do it."\ncheck = ["sh", "t.sh"]\nseconds = 5\ntags = ["x"]\n')
    (tmp_path / "two" / "files" / "sub" / "f").write_bytes(b"\xff")
    (tmp_path / "two" / "hidden" / "t.sh").write_text("true")
    (tmp_path / "two" / "hidden" / "t.sh").chmod(0o755)
    (tmp_path / "notes.md").write_text("not a task")

    one, two = load_tasks(tmp_path)

    assert (one.name, one.check, one.seconds) == ("one", ("sh", "-c", "true"), 600)
    assert one.files == {"a/b.txt": TaskFile(b"x"), "c": TaskFile(base64.b64decode("/w=="), True)}
    assert (two.name, two.check, two.seconds, two.tags) == ("two", ("sh", "t.sh"), 5, ("x",))
    assert (two.files, two.hidden) == ({"sub/f": TaskFile(b"\xff")}, {"t.sh": TaskFile(b"true", True)})


def test_a_task_that_changes_has_another_digest(tmp_path: Path) -> None:
    digests: set[str] = set()
    for text in ('[files]\n"a" = "1"', '[files]\n"a" = "2"', '[hidden]\n"a" = "1"', "", "seconds = 5"):
        (tmp_path / "one.toml").write_text(SMALLEST + text)
        digests.add(load_tasks(tmp_path)[0].digest)
    assert len(digests) == 5


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("prompt = ", "Invalid value"),
        ('prompt = "x"', "missing required field `check`"),
        ('prompt = " "\ncheck = "x"', "`prompt` must not be empty"),
        ('prompt = "x"\ncheck = []', "`check` must not be empty"),
        (SMALLEST + "seconds = 0", "`seconds` must not be zero"),
        (SMALLEST + "seconds = inf", "`seconds` must not be zero, negative or endless"),
        (SMALLEST + "hiden = 1", "unknown field `hiden`"),
        (SMALLEST + '[files]\n"../a" = "x"', "'../a' is not a relative path"),
        (SMALLEST + '[hidden]\n"/etc/a" = "x"', "'/etc/a' is not a relative path"),
        (SMALLEST + '[files]\n"a" = {base64 = "?"}', "this is not base64"),
        (SMALLEST + '[files]\n"a" = {executable = true}', "exactly one of `text` and `base64`"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "wrong.toml").write_text(text)
    with pytest.raises(BadRequest) as raised:
        load_tasks(tmp_path)
    assert str(tmp_path / "wrong.toml") in str(raised.value)
    assert complaint in str(raised.value)


def test_a_link_among_the_files_of_a_task_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one" / "files").mkdir(parents=True)
    (tmp_path / "one" / "task.toml").write_text(SMALLEST)
    (tmp_path / "one" / "files" / "out").symlink_to("/etc")
    with pytest.raises(BadRequest, match="files and folders only"):
        load_tasks(tmp_path)


def test_a_folder_without_tasks_says_what_a_task_is(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"a task is a file NAME\.toml"):
        load_tasks(tmp_path)
    with pytest.raises(BadRequest, match="No such file"):
        load_tasks(tmp_path / "none")
    (tmp_path / "one.toml").write_text(SMALLEST)
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "task.toml").write_text(SMALLEST)
    with pytest.raises(BadRequest, match="two tasks called one"):
        load_tasks(tmp_path)


def test_the_tasks_that_are_shipped_can_be_read() -> None:
    assert load_tasks(SHIPPED)
