"""The API: the paths that OpenAI's clients call, in an event loop that computes nothing.

A request becomes texts, the engine writes them in its thread, and their tokens come back to the event loop. Tokens that
arrive while the last chunk is being sent go together in the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ipaddress
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from minigrad.errors import InputError
from minigrad.options import nearest, shown, unknown
from minigrad.serving.bodies import Body, RefusedError, read_chat, read_completion, read_tokenize
from minigrad.serving.engine import Engine, News
from minigrad.serving.metrics import ServerMetrics
from minigrad.serving.playground import playground
from minigrad.serving.replies import Echo, Reply, ReplyPart
from minigrad.serving.scheduler import Event, Text
from minigrad.serving.served import Served
from minigrad.serving.settings import ServeConfig
from minigrad.system.terminal import to_standard_error
from minigrad.system.units import plural

Handler = Callable[[Request], Awaitable[Response]]
_OPEN = ("/", "/health")  # neither holds a model's data
_LOCAL = ("127.0.0.1", "localhost", "::1")  # the usual names of this machine
_GONE = 499  # nginx's status for a client that went away; nothing reads it but the metrics


class Deadline:
    """The time until which a request may wait for its body and for its tokens: some seconds after it began.

    How slowly a client reads its reply is not limited.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds, self.time = seconds, asyncio.get_running_loop().time() + seconds

    @contextlib.asynccontextmanager
    async def limit(self, what: str = "end", status: int = 504) -> AsyncIterator[None]:
        """Wait no longer than until then; raises RefusedError, which says what the request did not do in time."""
        try:
            async with asyncio.timeout_at(self.time):
                yield
        except TimeoutError:
            message = f"the request did not {what} within {self.seconds:g} s"
            raise RefusedError(message, status, code="timeout") from None


class Job:
    """The texts of one request, and their news."""

    def __init__(self, texts: Sequence[Text], deadline: Deadline) -> None:
        self.texts, self._deadline = texts, deadline
        self._news: asyncio.Queue[tuple[int, Event]] = asyncio.Queue()

    def receive(self, text: Text, event: Event) -> None:
        """Take the news of a text."""
        self._news.put_nowait((self.texts.index(text), event))

    async def parts(self) -> AsyncIterator[ReplyPart]:
        """Yield the parts of the texts as they arrive; raises RefusedError after an error, or when time is up."""
        left = len(self.texts)
        while left:
            async with self._deadline.limit():
                news = [await self._news.get()]
            while not self._news.empty():
                news.append(self._news.get_nowait())
            found = dict[int, ReplyPart]()
            for index, event in news:
                if isinstance(event, RefusedError):
                    raise event
                if isinstance(event, Exception):
                    raise RefusedError(f"the model failed: {type(event).__name__}: {event}", 500) from event
                found.setdefault(index, ReplyPart(index)).add(event)
            left -= sum(bool(part.ended) for part in found.values())
            for part in found.values():
                yield part

    def leave(self) -> None:
        """Free the places of the texts: the client waits no longer, or has everything."""
        for text in self.texts:
            text.gone = True


class Api:
    """The handlers of all paths, and what they share. The first of the models is the default.

    `address` is the one that the server listens on.
    """

    def __init__(self, models: Sequence[Served], config: ServeConfig, address: str) -> None:
        self._models, self._config, self._metrics = {each.name: each for each in models}, config, ServerMetrics()
        self._engine = Engine([each.scheduler for each in models], self._deliver)
        self._jobs = dict[Text, Job]()
        self._page, self._policy = playground(needs_key=config.api_key is not None)
        self._encoder = ThreadPoolExecutor(1)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_stopping = False
        is_local = ipaddress.ip_address(address).is_loopback
        self._names = {*_LOCAL, address, config.host.lower()} if is_local else None  # None: any name

    def app(self) -> Starlette:
        """Return the application that a server runs."""
        paths: dict[str, tuple[str, Handler]] = {
            "/": ("GET", self._playground),
            "/health": ("GET", self._health),
            "/metrics": ("GET", self._metrics_page),
            "/tokenize": ("POST", self._tokenize),
            "/v1/models": ("GET", self._list_models),
            "/v1/models/{name:path}": ("GET", self._show_model),
            "/v1/completions": ("POST", self._complete),
            "/v1/chat/completions": ("POST", self._chat),
        }
        routes = [
            Route(path, self._guarded(path, handler), methods=[method]) for path, (method, handler) in paths.items()
        ]
        cross = Middleware(
            CORSMiddleware, allow_origins=self._config.allow_origin, allow_methods=["GET", "POST"], allow_headers=["*"]
        )
        return Starlette(
            routes=routes,
            middleware=[cross] if self._config.allow_origin else [],
            exception_handlers={HTTPException: self._no_such_path},
            lifespan=self._lifespan,
        )

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        self._loop = asyncio.get_running_loop()
        self._engine.start()
        try:
            yield
        finally:
            self._loop = None
            self._encoder.shutdown(wait=False, cancel_futures=True)
            await asyncio.to_thread(self._engine.stop)

    def end_all(self) -> None:
        """End every reply with an error, and refuse further texts: the server is about to stop."""
        self._is_stopping = True
        for text, job in self._jobs.items():
            job.receive(text, _stopping())

    def _deliver(self, news: News) -> None:
        """Hand news from the thread of the engine to the event loop."""
        if (loop := self._loop) is not None:
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(self._receive, news)

    def _receive(self, news: News) -> None:
        for text, event in news:
            if (job := self._jobs.get(text)) is not None:
                job.receive(text, event)

    def _guarded(self, path: str, handler: Handler) -> Handler:
        """Return a handler that checks who calls, turns refusals into replies, and counts the replies."""

        async def guarded(request: Request) -> Response:
            request.state.deadline = Deadline(self._config.seconds)
            try:
                self._check_caller(path, request)
                reply = await handler(request)
            except InputError as error:
                reply = _refused(error if isinstance(error, RefusedError) else RefusedError(str(error)))
            except ClientDisconnect:
                reply = Response(status_code=_GONE)
            except Exception as error:  # a fault of one request does not end the server
                to_standard_error(f"[{path} failed: {type(error).__name__}: {error}]")
                reply = _refused(RefusedError("the server failed; its output has the reason", 500))
            self._metrics.add("requests_total", path=path, status=str(reply.status_code))
            return reply

        return guarded

    async def _no_such_path(self, request: Request, error: Exception) -> Response:
        """Return the reply to a path or a method that does not exist, and count it: all of them under one name."""
        reply = _http_error(request, error)
        self._metrics.add("requests_total", path="other", status=str(reply.status_code))
        return reply

    def _check_caller(self, path: str, request: Request) -> None:
        # A page of the web can let a browser call a local address under a name of the page's own (DNS rebinding).
        # Read the header itself: the framework replaces one that it cannot parse with the server's own address.
        host = request.headers.get("host")
        if self._names is not None and host is not None and _name(host) not in self._names:
            raise RefusedError(
                f"this server answers at local addresses only, and this request is for {shown(_name(host))}: let a "
                "proxy send localhost as the Host, or start the server with --host",
                403,
            )
        key, (scheme, _, given) = self._config.api_key, request.headers.get("authorization", "").partition(" ")
        knows_key = scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), (key or "").encode())
        if key is not None and path not in _OPEN and not knows_key:
            raise RefusedError("the API key is missing or wrong", 401, code="invalid_api_key")

    async def _body(self, request: Request) -> bytes:
        """Return the body of a request; raises RefusedError if it is too large, too slow, or its type is not JSON."""
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise RefusedError("the Content-Type of a request must be application/json", 415)
        found, most = bytearray(), self._config.body_kilobytes * 1024
        async with request.state.deadline.limit("arrive", 408):
            async for part in request.stream():
                found += part
                if len(found) > most:
                    raise RefusedError(f"a request has at most {most:,} bytes", 413)
        return bytes(found)

    def _model(self, name: str | None) -> Served:
        if name is None:
            return next(iter(self._models.values()))
        if name not in self._models:
            raise RefusedError(str(unknown("model", name, self._models)), 404, field="model", code="model_not_found")
        return self._models[name]

    async def _playground(self, request: Request) -> Response:
        headers = {
            "Content-Security-Policy": self._policy,
            "Cache-Control": "no-cache",
            "X-Content-Type-Options": "nosniff",
        }
        return HTMLResponse(self._page, headers=headers)

    async def _health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _metrics_page(self, request: Request) -> Response:
        page = self._metrics.page(self._models.values())
        return PlainTextResponse(page, media_type="text/plain; version=0.0.4")

    async def _list_models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [_described(each) for each in self._models.values()]})

    async def _show_model(self, request: Request) -> Response:
        return JSONResponse(_described(self._model(request.path_params["name"])))

    async def _tokenize(self, request: Request) -> Response:
        name, prompt, messages = read_tokenize(await self._body(request))
        model = self._model(name)
        encode = model.encode_messages if messages else model.tokenizer.encode
        ids = await self._encoded(encode, messages or prompt, request)
        found = {
            "count": len(ids),
            "tokens": ids,
            "beginning": 0 if messages else model.beginning,
            "max_model_len": model.scheduler.capacity,
            "max_tokens": self._config.max_tokens,
            "specials": sorted(model.tokenizer.specials),
            "converses": model.converses,
        }
        return JSONResponse(found)

    async def _complete(self, request: Request) -> Response:
        body, prompts = read_completion(await self._body(request))
        model = self._model(body.model)
        self._check_queue(model, len(prompts), body.n)
        encoded = [await self._encoded(model.encode, prompt, request) for prompt in prompts]
        ids = [found for found, _ in encoded]
        reply, job = Reply(model.name, model.tokenizer, body, ids), self._job(model, body, ids, request)
        if body.echo:
            for index, text in enumerate(job.texts):
                prompt, (found, hidden) = prompts[index // body.n], encoded[index // body.n]
                shown = prompt if isinstance(prompt, str) else reply.prompt_text(prompt, goes_on=text.writes)
                reply.echo(index, Echo(shown, found[0], hidden))
        return await self._reply(request, model, reply, job)

    async def _chat(self, request: Request) -> Response:
        body, messages = read_chat(await self._body(request))
        model = self._model(body.model)
        ids = [await self._encoded(model.encode_messages, messages, request)]
        reply, job = Reply(model.name, model.tokenizer, body, ids), self._job(model, body, ids, request)
        return await self._reply(request, model, reply, job)

    async def _encoded(self, encode: Callable[[Any], Any], given: Any, request: Request) -> Any:
        """Encode a text in another thread, one at a time, so that a long one holds up no other client."""
        async with request.state.deadline.limit():
            return await asyncio.get_running_loop().run_in_executor(self._encoder, encode, given)

    def _check_queue(self, model: Served, prompts: int, n: int) -> None:
        """Raise RefusedError if n further texts of each of some prompts may not wait."""
        waiting, most, count = model.scheduler.num_waiting, self._config.queue, prompts * n
        if count > most:
            sentence = f"a request may ask for at most {plural(most, 'text')} here, not {count:,}"
            raise RefusedError(sentence, field="n" if n > 1 else "prompt")
        if waiting + count > most:
            raise RefusedError(f"{plural(waiting, 'text')} waiting already; try again", 429, code="rate_limit_exceeded")

    def _job(self, model: Served, body: Body, prompts: Sequence[list[int]], request: Request) -> Job:
        """Let the texts of a request wait for places; raises RefusedError if too many wait, or one is too long."""
        if self._is_stopping:
            raise _stopping()
        self._check_queue(model, len(prompts), body.n)  # again: others came while the prompts were encoded
        client = f"{request.client.host if request.client else ''} {body.user or ''}"
        job = Job(model.texts(body, prompts, client, self._config.max_tokens), request.state.deadline)
        self._engine.submit(model.scheduler, job.texts)
        self._jobs |= dict.fromkeys(job.texts, job)  # news of them comes later, through the loop that runs this
        self._metrics.add("prompt_tokens_total", sum(map(len, prompts)), model=model.name)
        return job

    async def _reply(self, request: Request, model: Served, reply: Reply, job: Job) -> Response:
        """Return the reply to a request for texts: a stream, or JSON when all texts have ended."""
        if reply.body.stream:
            return _Stream(self._chunks(model, reply, job), lambda: self._end(job))
        work = asyncio.create_task(self._whole(model, reply, job))
        gone = asyncio.create_task(_disconnected(request))
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise ClientDisconnect
            return JSONResponse(work.result())
        finally:
            work.cancel()
            gone.cancel()
            self._end(job)

    async def _whole(self, model: Served, reply: Reply, job: Job) -> dict[str, Any]:
        parts = [ReplyPart(index) for index in range(len(job.texts))]
        async for part in self._counted(model, job):
            parts[part.index].join(part)
        return reply.whole(parts)

    async def _chunks(self, model: Served, reply: Reply, job: Job) -> AsyncIterator[str]:
        """Yield the events of a stream (Server-Sent Events)."""
        opened = set[int]()
        try:
            async for part in self._counted(model, job):
                if reply.is_chat and part.index not in opened:
                    opened.add(part.index)
                    yield _event(reply.opening(part.index))
                if part.text or part.ended or reply.has_logprobs:
                    yield _event(reply.chunk(part))
                else:
                    reply.count(part)  # the beginning of a character or of a stop string: there is nothing to show yet
        except RefusedError as error:
            yield _event(error.as_dict())
            return
        if reply.body.include_usage:
            yield _event(reply.last())
        yield "data: [DONE]\n\n"

    async def _counted(self, model: Served, job: Job) -> AsyncIterator[ReplyPart]:
        """Yield the parts of a job; count its tokens, and the time until the first."""
        begun, has_first = time.monotonic(), False
        async for part in job.parts():
            if part.num_written and not has_first:  # an echo has parts of its prompt before
                has_first = True
                self._metrics.add("first_token_seconds_sum", time.monotonic() - begun, model=model.name)
                self._metrics.add("first_token_seconds_count", model=model.name)
            self._metrics.add("generated_tokens_total", part.num_written, model=model.name)
            yield part

    def _end(self, job: Job) -> None:
        job.leave()
        for text in job.texts:
            self._jobs.pop(text, None)


class _Stream(StreamingResponse):
    """A stream of events; `close` is called at its end, even if the client goes away."""

    def __init__(self, events: AsyncIterator[str], close: Callable[[], None]) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"Cache-Control": "no-cache"})
        self._close = close

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._close()


def _name(host: str) -> str:
    """Return the name or address in a Host header, without its port."""
    name = re.sub(r":[0-9]*$", "", host).lower()
    return name[1:-1] if name.startswith("[") and name.endswith("]") else name


def _stopping() -> RefusedError:
    return RefusedError("the server is stopping", 503)


async def _disconnected(request: Request) -> None:
    """Return when the client goes away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _event(content: dict[str, Any]) -> str:
    # Of ASCII alone: some clients take U+2028 and its like for the end of a line.
    return f"data: {json.dumps(content, separators=(',', ':'))}\n\n"


def _refused(error: RefusedError) -> Response:
    headers = {429: {"Retry-After": "1"}, 401: {"WWW-Authenticate": "Bearer"}}.get(error.status)
    return JSONResponse(error.as_dict(), status_code=error.status, headers=headers)


def _http_error(request: Request, error: Exception) -> Response:
    """Return the reply to a path or a method that does not exist."""
    assert isinstance(error, HTTPException)
    path, allowed = request.url.path, (error.headers or {}).get("Allow", "another method")
    guess = nearest(path, [route.path for route in request.app.routes if isinstance(route, Route)])
    words = {
        404: f"there is no {shown(path)} here" + (f"; did you mean {guess!r}?" if guess else ""),
        405: f"{path} takes {allowed}, not {request.method}",
    }
    reply = _refused(RefusedError(words.get(error.status_code, str(error.detail)), error.status_code))
    reply.headers.update(error.headers or {})
    return reply


def _described(model: Served) -> dict[str, Any]:
    described = {"id": model.name, "object": "model", "created": model.created, "owned_by": "minigrad"}
    return described | {"max_model_len": model.scheduler.capacity}
