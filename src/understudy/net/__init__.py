"""A small HTTP/1.1 client for model providers: keep-alive, TLS, proxies, streaming bodies with back-pressure.

Uses asyncio transports and httptools, because users of a spawned server notice the time for start-up and for each event.
"""

from understudy.net.addresses import Url, parse_url
from understudy.net.client import HttpClient, HttpResponse
from understudy.net.failures import AnswerCut, AnswerSilent, BadAnswer, HttpFailure, Unreachable

__all__ = ["AnswerCut", "AnswerSilent", "BadAnswer", "HttpClient", "HttpFailure", "HttpResponse", "Unreachable", "Url", "parse_url"]
