"""What a person can do about a request that failed: the line after a provider's own words. It never holds a key.

It names who answered, since the words alone ("You exceeded your current quota") leave open whose they are.
"""

from understudy.models.auth import Credentials
from understudy.models.http import HttpFailure, Unreachable, Url
from understudy.models.providers import Provider
from understudy.models.retry import FINAL_CODES, QUOTA_CODES


def with_hint(told: str, hint: str) -> str:
    """The words that clients know stay in front."""
    return f"{told}\n{hint}" if hint else told


class FailureHints:
    """For the requests of one model at one provider."""

    def __init__(self, provider: Provider, url: Url, model: str, credentials: Credentials) -> None:
        self._provider = provider
        self._url = url
        self._model = model
        self._credentials = credentials

    def for_status(self, status: int, codes: tuple[str, ...], words: str) -> str:
        """Empty where the provider's words have to do."""
        who, key, model = self._who, self._key, self._model
        if status in (401, 403) or "invalid_api_key" in codes:
            return f"{who} did not accept {key}. {self._remedy_for_key}"
        if status == 402 or not QUOTA_CODES.isdisjoint(codes):
            return (
                f"This is the quota of your account at {who}, for {key}. Look at its billing there, or use another key or provider."
            )
        if "model_not_found" in codes or (status in (400, 404) and model in words):
            return f"{who} does not seem to offer the model `{model}`. Set `model` to one that it has, or use another provider."
        if status == 404:
            return (
                f"{who} has nothing at {self._url}. Check `base_url` (it usually ends in /v1), `wire_api` and `model` (`{model}`)."
            )
        if status == 429:
            return f"{who} allows no more requests for now, for {key}. Try again later, or use another key or provider."
        if status >= 500:
            return f"{who} fails at present. Try again later, or set `model_provider` to another."
        return ""

    def for_fault(self, codes: tuple[str, ...]) -> str:
        """Of an error that came in a stream."""
        return "" if FINAL_CODES.isdisjoint(codes) else self.for_status(200, codes, "")

    def for_failure(self, failure: HttpFailure) -> str:
        """Of a request that had no answer."""
        if not isinstance(failure, Unreachable):
            return f"So it was with {self._who}. Check {self._place}, and what stands between here and there."
        match failure.why:
            case "refused":
                return f"Nothing listens there. Is the server of {self._who} running, and is {self._place} right?"
            case "name":
                return f"Check {self._place}, and whether this machine can reach the network."
            case "certificate":
                return (
                    "If a proxy of yours signs certificates anew, set CODEX_CA_CERTIFICATE (or SSL_CERT_FILE) to a file with its"
                    f" certificate; else check {self._place}."
                )
            case "tls":
                return f"Does it speak https there? Check {self._place}."
            case "proxy":
                return "The proxy comes from HTTPS_PROXY, HTTP_PROXY or ALL_PROXY; hosts named in NO_PROXY are reached without it."
            case _:
                return f"Check {self._place}, the network, and HTTPS_PROXY where one is needed."

    def for_page(self) -> str:
        return f"That is no model: check {self._place}, which usually ends in /v1."

    @property
    def _who(self) -> str:
        name = self._provider.name or self._provider.id
        return f"{name} (model provider `{self._provider.id}`)"

    @property
    def _place(self) -> str:
        return f"`base_url` of model provider `{self._provider.id}`"

    @property
    def _key(self) -> str:
        source = self._credentials.source_of(self._provider)
        return f"the key from {source}" if source else "a request without a key"

    @property
    def _remedy_for_key(self) -> str:
        if self._credentials.source_of(self._provider):
            return "Check that it is whole, still valid, and meant for this provider and model."
        return f"Name the variable that holds your key: set `env_key` in `[model_providers.{self._provider.id}]`."
