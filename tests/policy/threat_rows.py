"""The rows on commands that docs/security-evidence.md tells of, in words: what is tried."""

COMMAND_ROWS: dict[str, str] = {
    "S1": "`git diff` that writes a file",
    "S2": "`git log` that writes a file",
    "S3": "`git show` that writes a file",
    "S4": "`git status` runs the repository's file-system monitor",
    "S5": "`git diff` runs the repository's diff program",
    "S6": "git converts files with a program the repository names",
    "S7": "`git branch` deletes",
    "S8": "`git branch` starts an editor",
    "S9": "`git branch` creates",
    "S10": "git options that name programs, configuration or other repositories",
    "S11": "git starts a pager",
    "S12": "git checks a signature with a program of the repository's choice",
    "S13": "a forged `.git` file or worktree",
    "S14": "sed writes a file by a second expression",
    "S15": "sed runs a program by a second expression",
    "S16": "sed takes its script from a file",
    "S17": "sed edits in place, writes, reads or runs by other forms",
    "S18": "find runs programs, deletes or writes",
    "S19": "an option hidden by a backslash",
    "S20": "an option hidden by braces",
    "S21": "an option hidden by a wildcard",
    "S22": "rg runs a program per file, or reads options and patterns from elsewhere",
    "S23": "cargo runs build scripts",
    "S24": "wrappers that run what their arguments say",
    "S25": "awk runs programs and writes files",
    "S26": "programs that write, run or connect by some option",
    "S27": "redirections and here-documents",
    "S28": "substitutions and expansions",
    "S29": "assignments and shell state before a harmless command",
    "S30": "second commands hidden by line ends, comments, operators, functions",
    "S31": "quoting that puts a name together, odd blanks, characters that hide",
    "S32": "too long, too many, too deep",
    "S33": "a harmless name at another path, planted in the search path, or run by a loader that searches the project",
    "S34": "other shells, and expansions that only they know",
    "S35": "changing folder first",
    "S36": "reading secrets",
    "S37": "commands that never end or flood",
}

EXTRA_COMMAND_ROWS: dict[str, tuple[str, str]] = {
    "S38": (
        "a command approved once, again with other words, place, environment or mode",
        "ask: an approval for the session is keyed by exactly these, and by what a script that it names says"
        " (`security/test_approvals.py::test_s38_x15_an_approval_for_the_session_is_for_the_same_words_folder_and_script`)",
    ),
    "S39": (
        "an allow rule for `git` against `git-evil`, `git status; rm`, `./git`",
        "ask: rules match whole words of commands that are fully understood"
        " (`policy/test_threats.py::test_s39_an_allow_rule_holds_for_its_words_only`)",
    ),
}
