"""A repository that brings its own `ls` gets no trust for the name."""

from pathlib import Path

from understudy.policy.steering import planted_programs


def test_a_program_in_a_folder_of_the_project_is_planted(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "bin").mkdir(parents=True)
    (project / "bin" / "ls").touch()
    (project / "cat").touch()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "grep").touch()
    link = tmp_path / "link"
    link.symlink_to(project / "bin")

    def planted(search_path: str | None) -> set[str]:
        return set(planted_programs(search_path, str(project), (str(project),)))

    assert planted(f"/usr/bin:{project}/bin:/bin") == {"ls"}
    assert planted(f"{outside}:/usr/bin") == set()
    assert planted(".:/usr/bin") == {"cat"}
    assert planted("/usr/bin::/bin") == {"cat"}
    assert planted("bin") == {"ls"}
    assert planted(f"{link}:/usr/bin") == {"ls"}
    assert planted("/usr/bin:/bin") == set()
