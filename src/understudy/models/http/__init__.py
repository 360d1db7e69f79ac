"""A small HTTP/1.1 client for model providers: keep-alive, TLS, proxies, streaming bodies with back-pressure.

Written on asyncio transports and httptools because start-up and per-event cost are what users of a spawned server feel.
"""

from understudy.models.http.failures import AnswerCut, AnswerSilent, BadAnswer, HttpFailure, Unreachable
from understudy.models.http.pooled_client import HttpClient
from understudy.models.http.response import HttpResponse
from understudy.models.http.url import Url, parse_url

__all__ = ["AnswerCut", "AnswerSilent", "BadAnswer", "HttpClient", "HttpFailure", "HttpResponse", "Unreachable", "Url", "parse_url"]
