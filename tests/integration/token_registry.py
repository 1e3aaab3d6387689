"""A registry in the test's own process, whose tokens may expire and which may refuse everything."""
import base64
import hashlib
import http.server
import json
import re
import threading
import urllib.parse


class TokenRegistry(http.server.ThreadingHTTPServer):
    """usage: with TokenRegistry("me", "password") as r: push_soci(r, "team/app", "v1", ...); image name: r.host + "/team/app:v1"

    `state`: "open", "refusing" (403 to everything), "expired" (no token is good any more, and there are no new ones).
    """
    daemon_threads = True
    block_on_close = False

    def __init__(self, user, password):
        super().__init__(("127.0.0.1", 0), Handler)
        self.user, self.password = user, password
        self.host = f"127.0.0.1:{self.server_address[1]}"
        self.state, self.generation = "open", 1
        self.manifests, self.blobs, self.requests = {}, {}, []
        self.lock = threading.Lock()

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    def handle_error(self, *_):
        pass  # a client that went away

    def push_blob(self, repository, data, name=None):
        name = name or "sha256:" + hashlib.sha256(data).hexdigest()
        self.blobs[name] = data
        return {"digest": name, "size": len(data)}

    def push_manifest(self, repository, tag, manifest):
        data = json.dumps(manifest).encode()
        name = "sha256:" + hashlib.sha256(data).hexdigest()
        self.manifests[tag] = self.manifests[name] = manifest["mediaType"], data
        return {"mediaType": manifest["mediaType"], "digest": name, "size": len(data)}

    def count(self, part):
        with self.lock:
            return sum(1 for path in self.requests if part in path)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, code, body=b"", headers=()):
        self.send_response(code)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, code, word, headers=()):
        self.answer(code, json.dumps({"errors": [{"code": word, "message": word.lower()}]}).encode(), [("Content-Type", "application/json"), *headers])

    def do_GET(self):
        r = self.server
        with r.lock:
            r.requests.append(self.path)
        if r.state == "refusing":
            return self.refuse(403, "DENIED")
        url = urllib.parse.urlsplit(self.path)
        given = self.headers.get("Authorization", "")
        if url.path == "/token":
            wanted = "Basic " + base64.b64encode(f"{r.user}:{r.password}".encode()).decode()
            if given != wanted or r.state == "expired":
                return self.refuse(401, "UNAUTHORIZED")
            return self.answer(200, json.dumps({"token": f"token-{r.generation}"}).encode())
        if given != f"Bearer token-{r.generation}" or r.state == "expired":
            return self.refuse(401, "UNAUTHORIZED", [("WWW-Authenticate", f'Bearer realm="http://{r.host}/token",service="test"')])
        found = re.fullmatch(r"/v2/(.+)/(manifests|blobs)/([^/]+)", url.path)
        if found and found[2] == "manifests" and found[3] in r.manifests:
            kind, data = r.manifests[found[3]]
            return self.answer(200, data, [("Content-Type", kind)])
        if not found or found[3] not in r.blobs:
            return self.refuse(404, "BLOB_UNKNOWN" if found and found[2] == "blobs" else "MANIFEST_UNKNOWN")
        data = r.blobs[found[3]]
        part = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if not part:
            return self.answer(200, data)
        first, last = int(part[1]), min(int(part[2]), len(data) - 1)
        self.answer(206, data[first:last + 1], [("Content-Range", f"bytes {first}-{last}/{len(data)}")])
