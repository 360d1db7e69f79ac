"""The rows of docs/security-evidence.md that are told in words: what is tried, what becomes of it, and the tests that show it.

A test is named by its file below `tests` and its sentence; a test of its own fails where one of them is no longer there.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    tried: str
    outcome: str
    shown_by: tuple[str, ...]  # "file: sentence"


def row(tried: str, outcome: str, *shown_by: str) -> Row:
    return Row(tried, outcome, shown_by)


DOOR = "tools/patch/test_door.py"
PLACEMENT = "tools/patch/test_placement.py"
PLAN = "tools/patch/test_plan.py"
COMMIT = "tools/patch/test_commit.py"
MEANWHILE = "tools/patch/test_meanwhile.py"
VIEW = "sandbox/test_view.py"
PROBES = "sandbox/test_probes.py"
LIFE = "sandbox/test_lifecycle.py"
RUNGS = "sandbox/test_rungs.py"
FILTER = "sandbox/test_filter.py"
APPROVALS = "security/test_approvals.py"
LOCKS = "tools/acts/test_folder_locks.py"
PLACES = "security/test_places.py"
GENERATED = "security/test_places_generated.py"
CONTAINED = "security/test_contained.py: it comes to nothing"
QUESTIONS = "security/test_questions.py: a newer client gets all of it in the message and a choice"
SECRETS = "security/test_secrets.py"
NONE_OF_IT = f"{PROBES}: a plain users command can do none of it"

PATCH_ROWS: dict[str, Row] = {
    "P1": row(
        "`../../x`",
        "judged by where it leads: asked about, under `never` refused, with full access written",
        f"{DOOR}: a path that leads out is planned under its true place",
        CONTAINED,
    ),
    "P2": row(
        "an absolute path outside the writable roots",
        "as P1",
        f"{PLACEMENT}: a path is judged by where it leads",
    ),
    "P3": row("an absolute path inside them", "as a relative one", f"{DOOR}: every spelling of a path inside works"),
    "P4": row(
        "the file itself is a link, for every kind of change",
        "refused, also where the link leads to a file inside",
        f"{DOOR}: no operation goes through a link",
    ),
    "P5": row(
        "a folder on the way is a link, for every kind of change",
        "refused; links in the roots that you chose yourself are followed",
        f"{DOOR}: no operation goes through a link",
        f"{PLACEMENT}: a link inside a root is not inside",
    ),
    "P6": row(
        "a link put in place between check and write",
        "refused: each part of the path is opened without following links",
        f"{DOOR}: a link put there after the check is noticed",
        f"{DOOR}: links swapped in while patches run never lead out",
    ),
    "P7": row("creating a file through a dangling link", "refused", f"{DOOR}: no operation goes through a link"),
    "P8": row(
        "a hard link to a file outside",
        "the name in the project gets a new file; the other stays as it was",
        f"{DOOR}: a hard link to a file outside leaves that file alone",
    ),
    "P9": row(
        "a pipe, device, socket or folder as target",
        "refused: regular files only",
        f"{DOOR}: only regular files are touched",
        f"{DOOR}: a directory is no file",
    ),
    "P10": row(
        "adding or moving onto a file that is there",
        "marked in the question as replacing it; onto a protected one as P11",
        f"{PLAN}: a file that is replaced is shown as what it is",
        QUESTIONS,
    ),
    "P11": row(
        "the protected list, in any spelling of its names",
        "asked about even inside a root, under `never` refused, in every mode; files that take effect later are shown first",
        f"{PLACEMENT}: no spelling gets a protected path past the list",
        "policy/test_questions.py: a patch is shown file by file those that matter most first",
        QUESTIONS,
    ),
    "P12": row("creating a protected path that does not exist yet", "as P11", f"{PLACEMENT}: a protected path need not exist"),
    "P13": row(
        "odd characters and lengths in paths",
        "control characters, line separators, marks that turn text, paths of more than 4,095 bytes and what is no UTF-8 are refused"
        " with the reason; other characters that cannot be seen are shown as `\\u{…}`",
        f"{PLAN}: paths no file should have are refused in words",
    ),
    "P14": row(
        "a path shown otherwise than written; several changes to one file",
        "what is shown is what is written; operations on one file that make no sense together are refused",
        f"{PLAN}: paths are shown as joined and judged as resolved",
        f"{PLAN}: other sequences on one file are refused",
        "policy/test_questions.py: the name of a file cannot pass for our words",
    ),
    "P15": row(
        "permissions, setuid, executable bit",
        "kept as they were, but setuid and setgid never under another owner; a new file is never executable",
        f"{COMMIT}: permissions stay as they were",
        f"{COMMIT}: new files follow the umask and are never executable",
        f"{MEANWHILE}: another users file keeps its mode but never its special bits under our name",
    ),
    "P16": row(
        "shell forms around a patch",
        "only the known forms are a patch, at most with one `cd` before it; a script that does anything else is an ordinary"
        " command, and a patch that a shell would change is sent back with advice",
        "tools/patch/test_invocation.py: a script that does anything else is an ordinary command",
        "tools/patch/test_invocation.py: a patch called wrongly is told how",
    ),
    "P17": row(
        "a change that fails after others fitted, or a disk that is full",
        "everything is put back; what could not be is named",
        f"{COMMIT}: whatever call fails the tree is whole",
        f"{COMMIT}: what cannot be put back is named",
    ),
    "P18": row(
        "a patch of 100 MB, a million hunks, hopeless context",
        "refused, or applied within a bounded time",
        "tools/patch/test_limits.py: a patch of 100 megabytes is refused",
        "tools/patch/test_limits.py: context made to be slow is answered",
    ),
    "P19": row(
        "line ends, byte order mark, missing final newline",
        "kept",
        "tools/patch/test_content.py: line endings stay",
    ),
    "P20": row(
        "permission for one file or folder, used for its neighbours",
        "a patch is approved once, for its own files; a writable root reaches neither its parent nor what is protected in it",
        f"{APPROVALS}: p20 leave for one file outside is no leave for its neighbours",
        f"{PLACEMENT}: leave for a directory does not reach its parent nor what is protected in it",
    ),
    "P21": row(
        "a forbidden file below an allowed place",
        "the strictest verdict on any of its files decides for the whole patch",
        f"{APPROVALS}: p21 what is forbidden below an allowed place stays forbidden",
    ),
    "P22": row(
        "a file that was changed since it was read",
        "noticed, and refused; an edit made at the last moment survives",
        f"{DOOR}: an edit by someone else since the check is noticed",
        f"{MEANWHILE}: an edit between the check and the exchange survives",
    ),
    "P23": row(
        "moving, changing, deleting or guessing at a masked file, also by another name of it",
        "refused before anything of it is read, and nobody is asked",
        f"{PLACES}: no patch moves changes or shows a masked file",
    ),
    "P24": row(
        "a root or folder on the way to it that is replaced by a link or another folder, also by another conversation",
        "refused with the reason until the original is back, even after a restart",
        f"{PLACES}: an inner root that was replaced is refused by door and cell",
        f"{PLACES}: a conversation cannot lead another ones root astray",
        f"{PLACES}: a root that is not there yet is not followed when a link appears",
        f"{GENERATED}: nothing outside changes and nothing masked is told",
    ),
    "P25": row(
        "a git repository without a `.git`, which the user's own git would obey",
        "as P11, also where a command has made a part of it",
        f"{PLACES}: no patch completes a repository without a git folder",
    ),
}

SANDBOX_ROWS: dict[str, Row] = {
    "X1": row(
        "writing outside the roots: `/`, the home, `/dev/shm`, shared `/tmp`",
        "refused; `/tmp` is private to the conversation",
        f"{VIEW}: a workspace can be written and nothing beside it",
        f"{VIEW}: tmp belongs to the conversation and is kept",
        CONTAINED,
    ),
    "X2": row(
        "renaming a folder on the way to a protected path",
        "refused",
        f"{VIEW}: folders on the way to a protected path cannot be moved",
    ),
    "X3": row(
        "another thing in place of `.git` or `.codex`, by link or rename",
        "refused",
        f"{VIEW}: a link is kept with what it points to",
        "security/test_masks.py: a protected name behind several links is kept with all of them",
        NONE_OF_IT,
    ),
    "X4": row(
        "creating a protected name that is missing",
        "refused, and nothing of the guard stays behind",
        f"{VIEW}: a missing name cannot be made in any way and nothing stays",
    ),
    "X5": row(
        "the network in every family, unix sockets, other services of this machine, our own server",
        "out of reach unless you open the network; unix sockets even then; the server listens nowhere",
        NONE_OF_IT,
        f"{VIEW}: sockets outside are out of reach even with a network",
        f"{APPROVALS}: n1 x5 the server listens nowhere",
        CONTAINED,
    ),
    "X6": row(
        "io_uring, ptrace, other processes' memory and descriptors, bpf, keyrings, mounts, namespaces, typing into terminals",
        "refused by the filter or not there to be found",
        NONE_OF_IT,
        f"{FILTER}: what reaches outside is refused",
        f"{FILTER}: terminal injection is refused however the upper half is set",
    ),
    "X7": row("descriptors that a command inherits or is handed", "none but its own three", NONE_OF_IT),
    "X8": row(
        "setuid programs, capabilities, the machine's root",
        "without effect; a command of root has no power either",
        f"{VIEW}: setuid files cannot be made",
        f"{PROBES}: a command of root on its own workspace can do none of it",
    ),
    "X9": row(
        "processes that stay, fork bombs, memory, files, output without end",
        "ended with the command, or bounded",
        f"{LIFE}: a daemon ends with the command that started it",
        f"{LIFE}: a fork bomb is bounded and ended while others run",
        f"{LIFE}: memory of all processes together is limited",
        f"{LIFE}: the default temporary folder cannot fill the machine",
        f"{LIFE}: a flood of output is passed on and others are served meanwhile",
    ),
    "X10": row(
        "no sandbox can be set up here",
        "nothing runs, and the reason and the remedy are given",
        f"{RUNGS}: where nothing works commands are refused and danger full access still runs",
        "security/test_contained.py: x10 where no sandbox can be had nothing runs",
    ),
    "X11": row(
        "a working folder, flags or variables of the model's choice",
        "change neither roots nor mode; under `on-request` asking to leave the sandbox is a question",
        "policy/test_decide.py: the model can name neither project nor rules nor mode",
        CONTAINED,
    ),
    "X12": row(
        "tricks with `TMPDIR` and `HOME`",
        "the temporary folder is the conversation's own, whatever the variable says",
        f"{VIEW}: a temporary folder from outside is replaced",
        f"{VIEW}: a folder that the model names does not uncover the real tmp",
    ),
    "X13": row(
        "keys and tokens in variables, `/proc`, command lines, logs, the store, error texts",
        "given to no command, contained or not; in no log, answer or file of ours; what a provider repeats of a key is hidden;"
        " a contained command cannot look into the server",
        f"{SECRETS}: x13 a key is in no file log or answer after turns that fail",
        f"{SECRETS}: x13 a key given with the call is used and not kept",
        f"{SECRETS}: x13 no child is given a key outside the sandbox either",
        CONTAINED,
    ),
    "X14": row(
        "variables from a repository's `.env`, or that start other programs",
        "not read, and not inherited",
        f"{SECRETS}: x14 i2 a repository sets nothing by its own files",
        "policy/test_environment.py: what would run before a command is dropped unless set on purpose",
    ),
    "X15": row(
        "a folder or script exchanged between question and run, or after an approval for the session",
        "not run, or asked about again. While it runs outside the sandbox, no contained command or patch of another conversation"
        " can change what it depends on: one waits for the other, or is refused. Files that a program reads by itself are not"
        " looked at",
        "security/test_swapping.py: x15 nothing that was exchanged runs outside the sandbox",
        f"{LOCKS}: other processes are kept out until they end however they do",
        f"{LOCKS}: locked is every folder in which a script a program or the folder itself could be replaced",
        "engine/turn/test_approvals.py: an answer given before the dependencies changed does not count",
        f"{APPROVALS}: x15 what changes while the question is open is not run",
        f"{APPROVALS}: s38 x15 an approval for the session is for the same words folder and script",
        "tools/test_dependencies.py: a script that is run must stay as it is",
    ),
    "X16": row(
        "a build, test runner or other program that does it for the command",
        "contained as the command is",
        CONTAINED,
    ),
    "X17": row(
        "time limits and grandchildren",
        "end with the command that started them",
        f"{LIFE}: a command that was told a time limit takes its daemons along",
        f"{LIFE}: cancelling ends a command that ignores signals and its daemons",
    ),
    "X18": row(
        "escape sequences for the terminal of whoever looks",
        "taken out or made visible",
        "security/test_terminal.py: x18 nothing that a terminal would obey is printed",
        "cli/test_commands.py: terminal escapes of a command do not reach the terminal",
    ),
    "X19": row(
        "turning a root inside another root, or a folder on the way to it, into a link",
        "refused; where somebody else did it, no command runs there",
        f"{VIEW}: a root inside another cannot be turned into a way out",
        f"{PLACES}: a command cannot turn an inner root or the way to it into a link",
    ),
    "X20": row(
        "the protected names of a project inside a larger root, or of a root that is read-only by its mode",
        "protected as anywhere else",
        f"{PLACES}: a project inside a larger root keeps its own protected names",
        f"{VIEW}: protected names cannot be made in a root that its owner made read only",
    ),
    "X21": row(
        "a masked path that is replaced or appears while a command runs, or whose parents are renamed",
        "stays out of reach outside the roots; inside one the command is ended at once and its output withheld",
        "sandbox/test_masks.py: a mask outside the roots holds when the path is replaced or appears",
        "sandbox/test_masks.py: a mask inside a root holds when the file would appear",
        f"{PLACES}: a masked file that is replaced under a running command is not passed on",
        f"{PLACES}: the parents of a masked path cannot be renamed away",
    ),
    "X22": row(
        "our own program in a writable root, or a hostile folder that it is started in",
        "protected like `.git`; nothing is loaded from there",
        "security/test_own_code.py: no command or patch changes a module that the server loads later",
        "security/test_own_code.py: started in a hostile folder it loads nothing from there",
    ),
    "X23": row(
        "files that editors, git and shells obey: `.vscode`, `.idea`, `.envrc`, `.gitmodules`, start-up files",
        "protected unless the user opens them",
        f"{PLACES}: files that other programs obey are protected and can be opened",
    ),
    "X24": row(
        "a masked path inside a protected folder, or named through links; our own files where the whole home, or the place that"
        " a link to them names, is writable",
        "out of reach; the links cannot be exchanged",
        "security/test_masks.py: our own files are out of reach where the whole home is writable",
        "security/test_masks.py: our own files are out of reach where a link leads to them in a root",
        "security/test_masks.py: a mask that is named through a link stays where it was",
    ),
    "X25": row(
        "a protected name, its placeholder or a folder on the way to it that another program, another conversation or an approved"
        " patch replaces, moves or removes while a command runs",
        "the command is ended at once, or before our own patch or undo, and is told why",
        "security/test_replacing.py: what is kept from a command stays so whoever replaces it",
        "security/test_replacing.py: every way to replace or change it",
        "security/test_opened_by_us.py: a yes ends the command that the question names before the patch",
        "security/test_opened_by_us.py: a silent session ends when an editor saves and the model is told why",
    ),
    "X26": row(
        "files of the user's own by which something runs with the user's rights, where a folder with them is the working directory"
        " or lies in a root, or a link leads there",
        "protected like the home; what a hook of the user's finds in a root runs in the sandbox",
        "e2e/hooks/test_own_files.py: no model writes the files of the user s own hooks",
        "e2e/hooks/test_own_files.py: what such a hook runs in any folder cannot be written in its own",
        "e2e/hooks/test_own_files.py: what such a hook finds where it is started runs contained in every mode",
    ),
}

SERVER_ROWS: dict[str, Row] = {
    "N1": row(
        "requests from web pages and other machines",
        "there is no port: the server speaks on its standard input and output",
        f"{APPROVALS}: n1 x5 the server listens nowhere",
    ),
    "N4": row(
        "the ids of other conversations and questions",
        "whoever holds the pipe is the user, and may see all of that user's store; a question is answered in its own"
        " conversation only",
        f"{APPROVALS}: n5 a question is answered once and in its own conversation by the tool too",
        "store/test_opening.py: folder and files are the owner s only",
    ),
    "N5": row(
        "an answer given twice, late, after a cancel, or by the agent's own shell",
        "only the first counts, and none that is late; a command reaches neither the pipe nor the store",
        f"{APPROVALS}: n5 only the first answer counts and none that comes late",
        f"{APPROVALS}: n5 an answer after the turn was cancelled runs nothing",
        f"{APPROVALS}: n5 the agents own shell cannot answer for the user",
    ),
    "N7": row(
        "deep, huge, broken and doubled messages; clients that never read",
        "each request is answered once, memory stays bounded, the server lives on",
        "security/test_protocol.py: n7 n8 every odd line has its answer and does nothing else",
        "security/test_protocol.py: n7 an id that is used twice at once has two answers",
        "protocol/test_jsonrpc.py: no bytes make it raise",
    ),
    "N8": row(
        "messages of an era of the protocol that the server does not speak",
        "unknown methods are refused, unknown fields are ignored",
        "security/test_protocol.py: n7 n8 every odd line has its answer and does nothing else",
        "e2e/test_handshake.py: the protocol version is the client s where we speak it",
    ),
    "N9": row(
        "a client that errs, declines, leaves or never answers",
        "anything but a clear yes is a no; nobody else waits; the question stays open for the next client",
        f"{APPROVALS}: n9 whatever is no clear yes is a no and the turn goes on",
        f"{APPROVALS}: n9 a client that never answers holds up nobody and one that leaves is no yes",
    ),
    "N10": row(
        "`kill -9`, a full, read-only or damaged disk, two servers on one store",
        "nothing acknowledged is lost, a failed write is reported, one owner at a time",
        "e2e/test_survival.py: while a command runs",
        "store/test_trouble.py: a full disk refuses one batch and takes the next once there is room",
        "store/sqlite/test_claims.py: an overtaken owner is refused by its epoch",
    ),
}

INJECTION_ROWS: dict[str, Row] = {
    "I1": row(
        "files, output and instructions that tell the model to change settings or approve itself",
        "the model may obey and gets nowhere: settings are protected, and no tool of its own approves anything",
        CONTAINED,
        "security/test_hostile_arguments.py: every oddity is told to the model and the turn goes on",
    ),
    "I2": row(
        "a repository's `.env`, `.codex/`, `.mcp.json`",
        "`.env` never counts, the others only once you trust the folder, and never for policy, sandbox or provider; "
        "trust is of the real path and ends when the files change",
        f"{SECRETS}: x14 i2 a repository sets nothing by its own files",
        "e2e/test_other_servers_of_projects.py: a server counts from the moment it is trusted until its file changes",
        "config/test_trust.py: trust ends when the folders own files change",
        "config/test_trust.py: trust is inherited neither by folders below nor through a git file",
    ),
    "I3": row(
        "carrying secrets out by network, DNS or a remote of the repository",
        "refused with the network off. What the model says reaches you and its provider in any case",
        CONTAINED,
    ),
    "I4": row(
        "a denied thing tried again by another tool or form",
        "each way meets the same list: shell, patch, patch in a shell, links, other spellings",
        CONTAINED,
        "policy/test_rules.py: what a rule denies is found wherever it hides",
    ),
    "I5": row(
        "words in the history that look like ours, across a restart",
        "policy and sandbox come from the configuration, never from the history",
        f"{SECRETS}: i5 what was said before cannot change what may be done",
        "cli/conversations/test_transfer.py: a file decides neither the sandbox nor what is approved",
    ),
    "I6": row(
        "misleading reasons, text that closes its quotes, hidden characters, look-alike letters, very long commands in a question",
        "the exact command first, ours next, the model's words last, each between marks that it can neither close nor imitate",
        QUESTIONS,
        "security/test_questions.py: an older client gets the line it knows and the rest as the reason",
        "policy/test_spoofing.py: the one line of every era gives back command and folder",
        "policy/test_spoofing.py: each further line is ours up to a mark that the model cannot make",
        "policy/test_spoofing.py: the names of files are quoted and read back by a shell",
        "security/test_terminal.py: no row of a question that begins like ours is the models",
        "policy/test_questions.py: no text of the models begins a line",
        "policy/test_questions.py: a long command is not cut and its end is shown again",
    ),
    "I7": row(
        "an `AGENTS.md` that is a link to, or another name of, a masked file, also when it is exchanged while it is read",
        "not read",
        f"{PLACES}: no agents md leads to a masked file",
        "places/test_reading.py: what is exchanged while it is read gives nothing masked",
    ),
}
