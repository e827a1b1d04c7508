"""Retries: `retry_call` calls what it is given, and once more after an error."""

from retry.api import retry_call as retry_call
