"""A small HTTP/1.1 client for model providers: keep-alive, TLS, proxies, streaming bodies with back-pressure.

Written on asyncio transports and httptools because start-up and per-event cost are what users of a spawned server feel.
"""

from understudy.net.addresses import Url, parse_url
from understudy.net.client import HttpClient, HttpResponse
from understudy.net.failures import AnswerCut, AnswerSilent, BadAnswer, HttpFailure, Unreachable

__all__ = ["AnswerCut", "AnswerSilent", "BadAnswer", "HttpClient", "HttpFailure", "HttpResponse", "Unreachable", "Url", "parse_url"]
