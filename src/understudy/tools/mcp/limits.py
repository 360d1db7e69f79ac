"""What another server may send, keep waiting and be asked. A server is not trusted to be brief."""

MOST_LINE = 16 << 20  # bytes of one message
MOST_JUNK = 64 << 20  # bytes that are no message, between two that are
MOST_UNREAD = 32 << 20  # bytes of messages that wait to be handled
MOST_UNSENT = 1_000  # messages to a server that does not read
MOST_UNANSWERED = 1_000  # requests of a server whose answers it does not read
MOST_PAGES = 50  # of a list
MOST_TOOLS = 512  # of one server
MOST_LISTED = 4_096  # things on a page that are looked at, tools or not
MOST_OFFERED = 256 << 10  # bytes of all tools of one server together; beyond, their parameters are left out
MOST_REFRESHES = 8  # of a server's list in one turn: each is a new beginning for the provider's cache
MOST_STARTS = 4  # again after a crash, within `RESTART_WINDOW`
RESTART_WINDOW = 60.0  # seconds
REFRESH_SECONDS = 5.0  # for a list that has changed
NOTICE_SECONDS = 2.0  # between two words of progress that are passed on
MOST_NOTICES = 50  # of them, and of a server's own questions, for one call
