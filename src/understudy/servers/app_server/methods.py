"""The methods of the app server. Everything else is answered with -32601."""

from understudy.servers.app_server import surroundings, threads, turns
from understudy.servers.app_server.requests import Handler

METHODS: dict[str, Handler] = {
    "thread/start": threads.start,
    "thread/resume": threads.resume,
    "thread/fork": threads.fork,
    "thread/list": threads.list_threads,
    "thread/loaded/list": threads.loaded_list,
    "thread/read": threads.read,
    "thread/turns/list": threads.turns_list,
    "thread/items/list": threads.items_list,
    "thread/name/set": threads.rename,
    "thread/archive": threads.archive,
    "thread/unarchive": threads.unarchive,
    "thread/delete": threads.delete,
    "thread/unsubscribe": threads.unsubscribe,
    "thread/compact/start": threads.compact,
    "thread/settings/update": turns.update_settings,
    "turn/start": turns.start,
    "turn/steer": turns.steer,
    "turn/interrupt": turns.interrupt,
    "model/list": surroundings.list_models,
    "config/read": surroundings.read_config,
    "account/read": surroundings.read_account,
    "account/login/start": surroundings.log_in,
    "account/logout": surroundings.log_out,
    "getAuthStatus": surroundings.auth_status,
    "permissionProfile/list": surroundings.list_profiles,
    "collaborationMode/list": surroundings.list_modes,
    "skills/list": surroundings.list_skills,
    "hooks/list": surroundings.list_hooks,
}
