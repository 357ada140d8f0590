"""A loopback double of the Hugging Face Hub's HTTP endpoints, for tests that push and load back.

It listens on 127.0.0.1 only, keeps repositories in memory and stops when its `with` block ends. The Hugging Face libraries
read their endpoint once, at import, so client code runs in a process of its own: `run_client(double, code)`.
Served: whoami, repository creation, README validation, preupload, LFS batch and upload, commits and pull requests, info,
revisions, tree, paths-info, and downloads with ranges. Listings come in one page.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "hf_" + "double" * 5
USER = "tester"
DATE = "2026-01-01T00:00:00.000Z"
LFS = (".parquet", ".safetensors", ".gz", ".bin", ".arrow", ".png", ".nii")


@dataclass
class Repo:
    """One repository: `commits` maps a commit id to its whole tree, path -> content."""

    private: bool
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)

    def __post_init__(self):
        self.commit("main", {}, "initial commit")

    def commit(self, ref: str, tree: dict[str, bytes], title: str) -> str:
        seed = json.dumps([len(self.commits), title, {path: hashlib.sha1(body).hexdigest() for path, body in tree.items()}])
        sha = hashlib.sha1(seed.encode()).hexdigest()
        self.commits[sha] = tree
        self.refs[ref] = sha
        return sha

    def find(self, revision: str) -> str | None:
        return self.refs.get(revision.removeprefix("refs/heads/")) or (revision if revision in self.commits else None)

    def files(self, revision: str = "main") -> dict[str, bytes]:
        return self.commits[self.find(revision)]


class HubDouble:
    """`with HubDouble() as hub:` serves until the block ends.

    Attributes:
        endpoint: its address, for HF_ENDPOINT.
        repos: ("models" | "datasets" | "spaces", "namespace/name") -> Repo.
        requests: "METHOD /path" of each request in order of arrival.
        unknown: the requests that no route serves, answered 404; a test may assert that there are none.
    """

    def __init__(self):
        self.repos: dict[tuple[str, str], Repo] = {}
        self.requests: list[str] = []
        self.unknown: list[str] = []
        self.blobs: dict[str, bytes] = {}
        self.lock = threading.Lock()

    def __enter__(self) -> HubDouble:
        self._home = tempfile.TemporaryDirectory()
        self.home = self._home.name
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": self}))
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=10)
        self._home.cleanup()

    def environment(self, token: str | None = TOKEN) -> dict[str, str]:
        """What a client process needs before it imports any Hugging Face library; `token=None` is not logged in."""
        env = {key: value for key, value in os.environ.items() if not key.startswith("HF_") and key != "HUGGING_FACE_HUB_TOKEN"}
        env |= {"HF_ENDPOINT": self.endpoint, "HF_HOME": self.home, "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
        env |= {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", "OMP_NUM_THREADS": "1"}
        return env | ({"HF_TOKEN": token} if token else {})


def run_client(double: HubDouble, code: str, *args, token: str | None = TOKEN, check: bool = True) -> subprocess.CompletedProcess:
    """Run Python `code` (arguments in sys.argv[1:]) in a fresh process that sees the double as the Hub.

    Raises:
        AssertionError: `check` and the process failed; the message holds what it printed.
    """
    root = str(Path(__file__).resolve().parents[1])
    env = double.environment(token) | {"PYTHONPATH": root}
    command = [sys.executable, "-c", code, *map(str, args)]
    done = subprocess.run(command, env=env, cwd=double.home, capture_output=True, text=True, timeout=300)
    if check and done.returncode:
        raise AssertionError(f"client process failed:\n{done.stdout}\n{done.stderr}")
    return done


class _Refused(Exception):
    """An answer that is an error: status, the Hub's X-Error-Code, message, and what else its JSON holds."""


class _Handler(BaseHTTPRequestHandler):
    """ROUTES: method, pattern over the raw path (segments still percent-encoded), name of the method that answers it.

    A method returns the JSON value to send, or None when it has sent its answer itself.
    """

    hub: HubDouble
    protocol_version = "HTTP/1.1"
    timeout = 60

    ID = r"(?P<id>[^/]+/[^/]+)"
    API = rf"/api/(?P<kind>models|datasets|spaces)/{ID}"
    ROUTES = [
        ("GET", r"/api/whoami-v2", "whoami"),
        ("POST", r"/api/repos/create", "create"),
        ("POST", r"/api/validate-yaml", "validate_yaml"),
        ("PUT", r"/lfs-upload/(?P<oid>[0-9a-f]{64})", "lfs_put"),
        ("POST", rf"/(?:(?P<kind>datasets|spaces)/)?{ID}\.git/info/lfs/objects/batch", "lfs_batch"),
        ("POST", rf"{API}/preupload/(?P<rev>[^/]+)", "preupload"),
        ("POST", rf"{API}/commit/(?P<rev>[^/]+)", "commit"),
        ("POST", rf"{API}/paths-info/(?P<rev>[^/]+)", "paths_info"),
        ("GET", rf"{API}(?:/revision/(?P<rev>[^/]+))?", "info"),
        ("GET", rf"{API}/tree/(?P<rev>[^/]+)(?:/(?P<path>.*))?", "tree"),
        ("GET", rf"/(?:(?P<kind>datasets|spaces)/)?{ID}/resolve/(?P<rev>[^/]+)/(?P<path>.+)", "resolve"),
    ]

    def log_message(self, *args):
        """Keep standard error quiet; the double records requests itself."""

    def _serve(self):
        url = urlsplit(self.path)
        self.query, self.body = parse_qs(url.query), self._read_body()
        with self.hub.lock:
            self.hub.requests.append(f"{self.command} {self.path}")
            try:
                answer = self._answer("GET" if self.command == "HEAD" else self.command, url.path)
            except _Refused as refusal:
                status, code, message, *more = refusal.args
                body = json.dumps({"error": message} | dict(*more)).encode()
                return self._send(body, status, {"X-Error-Code": code, "X-Error-Message": message})
            return None if answer is None else self._send(json.dumps(answer).encode(), headers={"Content-Type": "application/json"})

    do_GET = do_HEAD = do_POST = do_PUT = _serve

    def _answer(self, method: str, path: str):
        for verb, pattern, name in self.ROUTES:
            match = re.fullmatch(pattern, path)
            if verb == method and match:
                return getattr(self, name)(**{key: unquote(value) for key, value in match.groupdict().items() if value})
        self.hub.unknown.append(f"{self.command} {self.path}")
        raise _Refused(404, "Unknown", "no such endpoint in the double")

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _send(self, body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _log_in(self, needed: bool = True) -> None:
        if needed and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            raise _Refused(401, "RepoNotFound" if "whoami" not in self.path else "", "Invalid username or password.")

    def _repo(self, kind: str, id: str, rev: str = "main", write: bool = False) -> tuple[Repo, str]:
        """The repository and the commit that `rev` means."""
        repo = self.hub.repos.get((kind, id))
        self._log_in(needed=write or repo is None or repo.private)
        if repo is None:
            raise _Refused(404, "RepoNotFound", "Repository not found")
        if not repo.find(rev):
            raise _Refused(404, "RevisionNotFound", f"Invalid rev id: {rev}")
        return repo, repo.find(rev)

    def _url(self, kind: str, id: str) -> str:
        return f"{self.hub.endpoint}/{'' if kind == 'models' else kind + '/'}{id}"

    def whoami(self):
        self._log_in()
        return {"type": "user", "name": USER, "orgs": [], "auth": {"type": "access_token"}}

    def create(self):
        self._log_in()
        ask = json.loads(self.body)
        kind, name = ask.get("type", "model") + "s", f"{ask.get('organization') or USER}/{ask['name']}"
        if not name.startswith(f"{USER}/"):
            raise _Refused(403, "", f"You don't have the rights to create a repo under {name}")
        if (kind, name) in self.hub.repos:
            raise _Refused(409, "", "You already created this repo", {"url": self._url(kind, name)})
        self.hub.repos[kind, name] = Repo(private=ask.get("visibility") == "private")
        return {"url": self._url(kind, name), "name": name}

    def validate_yaml(self):
        has_header = json.loads(self.body)["content"].startswith("---\n")
        return {"errors": [], "warnings": [] if has_header else [{"message": "empty or missing yaml metadata in repo card"}]}

    def preupload(self, kind: str, id: str, rev: str):
        self._repo(kind, id, rev, write=True)
        paths = [file["path"] for file in json.loads(self.body)["files"]]
        return {"files": [{"path": p, "uploadMode": "lfs" if p.endswith(LFS) else "regular", "shouldIgnore": False} for p in paths]}

    def lfs_batch(self, id: str, kind: str = "models"):
        self._repo(kind, id, write=True)
        asked = json.loads(self.body)["objects"]
        href = f"{self.hub.endpoint}/lfs-upload"
        return {"transfer": "basic", "objects": [o | {"actions": {"upload": {"href": f"{href}/{o['oid']}"}}} for o in asked]}

    def lfs_put(self, oid: str):
        if hashlib.sha256(self.body).hexdigest() != oid:
            raise _Refused(400, "", "content does not match its sha256")
        self.hub.blobs[oid] = self.body
        self._send(b"")

    def commit(self, kind: str, id: str, rev: str):
        repo, sha = self._repo(kind, id, rev, write=True)
        tree, title = dict(repo.commits[sha]), ""
        for line in self.body.splitlines():
            key, value = (item := json.loads(line))["key"], item["value"]
            if key == "header":
                title = value["summary"]
            elif key == "file":
                tree[value["path"]] = base64.b64decode(value["content"])
            elif key == "lfsFile":
                tree[value["path"]] = self.hub.blobs[value["oid"]]
            elif key == "deletedFile":
                del tree[value["path"]]
            elif key == "deletedFolder":
                tree = {path: content for path, content in tree.items() if not path.startswith(value["path"].rstrip("/") + "/")}
            else:
                raise _Refused(400, "", f"unknown operation {key}")
        pull_requests = sum(ref.startswith("refs/pr/") for ref in repo.refs)
        ref = f"refs/pr/{pull_requests + 1}" if "create_pr" in self.query else rev
        new = repo.commit(ref, tree, title)
        answer = {"commitUrl": f"{self._url(kind, id)}/commit/{new}", "commitOid": new, "success": True}
        return answer | ({"pullRequestUrl": f"{self._url(kind, id)}/discussions/{ref.rsplit('/', 1)[1]}"} if ref != rev else {})

    def info(self, kind: str, id: str, rev: str = "main"):
        repo, sha = self._repo(kind, id, rev)
        counts = {"downloads": 0, "likes": 0, "tags": [], "lastModified": DATE, "createdAt": DATE}
        siblings = [{"rfilename": path} for path in repo.commits[sha]]
        return {"id": id, "sha": sha, "private": repo.private, "gated": False, "disabled": False, "siblings": siblings, **counts}

    def _listing(self, kind: str, id: str, rev: str) -> dict[str, dict]:
        """Path -> the Hub's description of the file or folder, sorted by path."""
        repo, sha = self._repo(kind, id, rev)
        listing = {}
        for path, body in repo.commits[sha].items():
            for folder in [str(parent) for parent in Path(path).parents][:-1]:
                listing[folder] = {"type": "directory", "path": folder, "oid": hashlib.sha1(folder.encode()).hexdigest(), "size": 0}
            listing[path] = {"type": "file", "path": path, "oid": hashlib.sha1(body).hexdigest(), "size": len(body)}
            if path.endswith(LFS):
                listing[path]["lfs"] = {"oid": hashlib.sha256(body).hexdigest(), "size": len(body), "pointerSize": 134}
        return dict(sorted(listing.items()))

    def tree(self, kind: str, id: str, rev: str, path: str = ""):
        listing, root = self._listing(kind, id, rev), f"{path}/" if path else ""
        if path and path not in listing:
            raise _Refused(404, "EntryNotFound", f"{path} does not exist")
        deep = self.query.get("recursive", ["false"])[0].lower() in ("true", "1")
        return [entry for p, entry in listing.items() if p.startswith(root) and (deep or "/" not in p[len(root) :])]

    def paths_info(self, kind: str, id: str, rev: str):
        as_json = "json" in self.headers.get("Content-Type", "")
        paths = json.loads(self.body)["paths"] if as_json else parse_qs(self.body.decode())["paths"]
        listing = self._listing(kind, id, rev)
        return [listing[p] for p in paths if p in listing]

    def resolve(self, id: str, rev: str, path: str, kind: str = "models"):
        repo, sha = self._repo(kind, id, rev)
        body = repo.commits[sha].get(path)
        if body is None:
            raise _Refused(404, "EntryNotFound", f"{path} does not exist")
        headers = {"X-Repo-Commit": sha, "ETag": f'"{hashlib.sha256(body).hexdigest()}"', "Accept-Ranges": "bytes"}
        part = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not part:
            return self._send(body, headers=headers)
        start, stop = int(part[1]), min(int(part[2] or len(body) - 1) + 1, len(body))
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(body)}"
        return self._send(body[start:stop], 206, headers)
