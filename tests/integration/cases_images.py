"""G7: image pulls by the model (docs/images.md), from pods in the API to events, metrics and the images of nodes, and files that are read lazily
(docs/image-pull.md). Inputs in tests/data/cases."""
import base64
import json
import os
import random
import re
import sys
import time
import urllib.request

from case_support import NODES, PODS, case, seconds
from token_registry import TokenRegistry

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from image_makers import make_soci_layer, push_soci  # noqa: E402

HEAD = "apiVersion: ghostfleet.dev/v1alpha1\nkind: Images\nspec:\n"


def images_file(t, text):
    path = os.path.join(t.p.home, f"images-{len(os.listdir(t.p.home))}.yaml")
    with open(path, "w") as f:
        f.write(HEAD + text)
    return path


class Metrics:
    """What a child with --metrics-port 0 counts."""

    def __init__(self, t, child):
        def address():
            with open(child.log) as log:
                found = re.search(r"metrics: (\S+)", log.read())
            self.url = found and found[1]
            return found
        t.wait("address of the metrics", address, 20)

    def __call__(self, name, **labels):
        with urllib.request.urlopen(self.url, timeout=20) as answer:
            text = answer.read().decode()
        wanted = name + ("{" + ",".join(f'{k}="{v}"' for k, v in labels.items()) + "}" if labels else "")
        for line in text.splitlines():
            if line.startswith(wanted + " "):
                return float(line.split()[-1])
        raise AssertionError(f"no metric {wanted}")

    def pulls(self, result):
        return self("ghostfleet_image_pulls_total", result=result)

    def requests(self):
        return self("ghostfleet_image_manifest_requests_total")


def pod(name, image, node, policy="IfNotPresent"):
    return {"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [{"name": "c", "image": image, "imagePullPolicy": policy}]}}


def all_running(pods, count):
    return len(pods) == count and all(p["status"]["phase"] == "Running" for p in pods)


def pulled(t, name):
    """Seconds of the pull itself and with waiting, and the size, as the event tells them."""
    text = t.events(name, "Pulled")[0]["message"]
    found = re.fullmatch(r'Successfully pulled image "\S+" in (\S+) \((\S+) including waiting\)\. Image size: (\d+) bytes\.', text)
    assert found, text
    return duration(found[1]), duration(found[2]), int(found[3])


def duration(text):
    units = {"h": 3600, "m": 60, "s": 1, "ms": 0.001}
    return sum(float(n) * units[u] for n, u in re.findall(r"([\d.]+)(ms|h|m|s)", text))


@case("C057")
def c057(t):
    """A registry refuses most of a roll-out: events and states as a kubelet's, no hot loop, and it heals by itself."""
    settings = images_file(t, "  settings: {registries: [{match: 'registry.example.test/*', requestsPerSecond: 5, burst: 5}]}\n  images: [{match: '*app*', compressed: 20M}]\n")
    fleet = t.start("fleet", "--nodes", "20", "--profile", "m5.large", "--name", "p", "--images", settings, "--metrics-port", "0")
    metrics = Metrics(t, fleet)
    t.wait("20 nodes", lambda: len(t.items(NODES)) == 20, 30)
    t.create("C057.yaml")
    roll = lambda: t.items(f"{PODS}?labelSelector=app%3Droll")
    t.wait("some are refused", lambda: metrics.pulls("refused") > 0, 30)
    seen = set()

    def look():
        for p in roll():
            for s in p["status"].get("containerStatuses", []):
                waiting = s["state"].get("waiting", {})
                seen.add(waiting.get("reason"))
                assert s["restartCount"] == 0, s
                if waiting.get("reason") in ("ErrImagePull", "ImagePullBackOff"):
                    assert p["status"]["phase"] == "Pending" and "429 Too Many Requests" in waiting["message"], (p["status"]["phase"], waiting)
        return all_running(roll(), 20)

    def refused_pods():
        return [p for p in roll() for s in p["status"].get("containerStatuses", [])
                if s["state"].get("waiting", {}).get("reason") in ("ErrImagePull", "ImagePullBackOff")]

    t.wait("a pod waits after a refusal", lambda: not look() and "ErrImagePull" in seen and refused_pods(), 20)
    refused = refused_pods()[0]
    # Another image is not held up by this one's back-off.
    t.post(PODS, pod("other", "elsewhere.example.test/app:1", refused["spec"]["nodeName"]))
    t.wait("the other image's pod runs", lambda: t.pod("other")["status"]["phase"] == "Running", 8)
    t.wait("20 pods run", look, 150)
    assert {"ErrImagePull", "ImagePullBackOff"} <= seen, seen
    name = refused["metadata"]["name"]
    failed = [e["message"] for e in t.events(name, "Failed")]
    assert any(m.startswith('Failed to pull image "registry.example.test/team/app:2.0": ') and "429 Too Many Requests" in m for m in failed), failed
    assert "Error: ErrImagePull" in failed and "Error: ImagePullBackOff" in failed, failed
    assert [e["type"] for e in t.events(name, "BackOff")] == ["Normal"]
    t.wait("all are counted", lambda: metrics.pulls("succeeded") == 21, 5)
    # 20 pods, the other one, and a request for each refusal, nothing more.
    assert metrics.requests() == 21 + metrics.pulls("refused"), (metrics.requests(), metrics.pulls("refused"))
    assert metrics.pulls("refused") < 60, metrics.pulls("refused")


def thirty_images(t, node, qps):
    """Thirty pods of thirty images at once: how many failed by the node's own limit, and what the registry saw."""
    settings = images_file(t, f"  settings: {{registryPullQPS: {qps}, registryBurst: 10}}\n  images: [{{match: '*', compressed: 5M, layerCount: 1}}]\n")
    metrics = Metrics(t, t.agent(node, "--images", settings, "--metrics-port", "0"))
    t.wait("node Ready", lambda: t.node_is(node, "True"), 30)
    for i in range(30):
        t.post(PODS, pod(f"{node}-{i}", f"registry.example.test/app-{i}:1", node))
    t.wait("30 pods run", lambda: all_running([p for p in t.items(PODS) if p["spec"]["nodeName"] == node], 30), 60)
    told = [p["metadata"]["name"] for p in t.items(PODS) if p["spec"]["nodeName"] == node]
    told = [n for n in told if any("pull QPS exceeded" in e["message"] for e in t.events(n, "Failed"))]
    t.wait("all are counted", lambda: metrics.pulls("succeeded") == 30, 5)
    assert metrics.requests() == 30, metrics.requests()
    assert metrics.pulls("qps_exceeded") >= len(told)
    return len(told), metrics.pulls("qps_exceeded")


@case("C058")
def c058(t):
    """A node's own pull limit: those beyond it fail without a request to the registry, and run in the end; without a limit none fails."""
    failed, refusals = thirty_images(t, "n-five", 5)
    assert 10 <= failed <= 20 and refusals >= failed, (failed, refusals)
    assert thirty_images(t, "n-free", 0) == (0, 0)


@case("C059")
def c059(t):
    """Twenty pods of one image on a cold node: each layer comes once, all start together, the second image only brings what is new."""
    settings = images_file(t, """  settings: {networkMBps: 100, unpackMBps: 50, registryPullQPS: 0}
  images:
  - match: '*ml/train:1'
    layers: [{id: base, compressed: 10M}, {id: middle, compressed: 200M}, {compressed: 600M, unpacked: 1320M}]
  - match: '*ml/train:2'
    layers: [{id: base, compressed: 10M}, {id: middle, compressed: 200M}, {compressed: 100M, unpacked: 220M}]
""")
    metrics = Metrics(t, t.agent("cold", "--images", settings, "--metrics-port", "0"))
    t.wait("node Ready", lambda: t.node_is("cold", "True"), 30)
    t.create("C059.yaml")
    same = lambda: t.items(f"{PODS}?labelSelector=app%3Dsame")
    t.wait("20 pods run", lambda: all_running(same(), 20), 60)
    starts = [seconds(p["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]) for p in same()]
    assert max(starts) - min(starts) <= 2, sorted(starts)
    t.wait("all are counted", lambda: metrics.pulls("succeeded") == 20, 5)
    assert metrics("ghostfleet_image_pulled_bytes_total") == 810e6
    # 810 MB at 50 MB/s, and what an answer and the layers take besides.
    own, whole, size = pulled(t, same()[0]["metadata"]["name"])
    assert 16.2 <= own <= 20 and whole >= own and size == 810e6, (own, whole, size)
    t.post(PODS, pod("second", "registry.example.test/ml/train:2", "cold"))
    t.wait("second runs", lambda: t.pod("second")["status"]["phase"] == "Running", 20)
    t.wait("it is counted", lambda: metrics.pulls("succeeded") == 21, 5)
    assert metrics("ghostfleet_image_pulled_bytes_total") == 910e6
    assert 2 <= pulled(t, "second")[0] <= 6, pulled(t, "second")
    # With Always the registry is asked, and nothing is fetched.
    before = metrics.requests()
    for i in range(5):
        t.post(PODS, pod(f"always-{i}", "registry.example.test/ml/train:1", "cold", "Always"))
    t.wait("they run", lambda: all(t.pod(f"always-{i}")["status"]["phase"] == "Running" for i in range(5)), 20)
    t.wait("they are counted", lambda: metrics.pulls("succeeded") == 26, 5)
    assert metrics.requests() == before + 5 and metrics("ghostfleet_image_pulled_bytes_total") == 910e6
    images = lambda: {n: i["sizeBytes"] for i in t.get(f"{NODES}/cold")["status"].get("images", []) for n in i["names"]}
    t.wait("the node tells both", lambda: {"registry.example.test/ml/train:1", "registry.example.test/ml/train:2"} <= set(images()), 60)
    assert images()["registry.example.test/ml/train:1"] == 810e6 and images()["registry.example.test/ml/train:2"] == 310e6, images()
    assert any(n.startswith("registry.example.test/ml/train@sha256:") for n in images()), images()
    # Both on the disk: 810 MB and 100 MB compressed, 2.2 times that unpacked, each layer once.
    disk = t.get(f"{NODES}/cold/proxy/stats/summary")["node"]
    held = disk["runtime"]["imageFs"]
    assert 1.9e9 < held["usedBytes"] < 2.1e9, held
    assert held["capacityBytes"] - held["availableBytes"] >= held["usedBytes"] and held["capacityBytes"] == disk["fs"]["capacityBytes"], disk


@case("C061")
def c061(t):
    """A pod without its ConfigMap asks the registry once each sync with Always, once in all with IfNotPresent."""
    metrics = Metrics(t, t.agent("n-a1", "--images", "built-in", "--metrics-port", "0"))
    t.create("C061.yaml")
    waiting = lambda n: t.pod(n)["status"]["containerStatuses"][0]["state"].get("waiting", {})
    for name in ("always", "once"):
        t.wait(f"{name} lacks its ConfigMap", lambda: t.pod(name)["status"].get("containerStatuses") and waiting(name).get("reason") == "CreateContainerConfigError", 40)
        assert waiting(name)["message"] == 'configmap "missing" not found', waiting(name)
    begin, before = time.monotonic(), metrics.requests()
    time.sleep(45)
    more, past = metrics.requests() - before, time.monotonic() - begin
    assert 1 <= more <= past / 10 + 1, (more, past)
    assert len(t.events("once", "Pulling")) == 1 and t.events("once", "Pulling")[0]["count"] == 1
    t.post("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "missing"}, "data": {"x": "1"}})
    t.wait("both run", lambda: all(t.pod(n)["status"]["phase"] == "Running" for n in ("always", "once")), 40)


SECRETS = "/api/v1/namespaces/default/secrets"


def pull_secret(registry):
    config = json.dumps({"auths": {registry.host: {"username": registry.user, "password": registry.password}}})
    return {"metadata": {"name": "pull"}, "type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": base64.b64encode(config.encode()).decode()}}


def reading_pod(name, registry, behavior, node):
    out = pod(name, registry.host + "/team/weights:v1", node)
    out["metadata"]["annotations"] = {"behavior.ghostfleet.dev/c": behavior}
    out["spec"]["imagePullSecrets"] = [{"name": "pull"}]
    return out


@case("C065")
def c065(t):
    """The registry refuses before a container reads a file that was never fetched: it crash-loops and recovers with fresh credentials; who has all runs on."""
    rnd = random.Random(65)
    layer, ztoc = make_soci_layer({f"data/{i}": rnd.randbytes(1 << 20) for i in range(6)}, span=1 << 20)
    with TokenRegistry("me", "first") as registry:
        push_soci(registry, "team/weights", "v1", [(layer, ztoc)])
        t.post(SECRETS, pull_secret(registry))
        lazy = ("--image-puller", "lazy", "--image-platform", "linux/amd64", "--image-insecure-registry", registry.host)
        store = {node: os.path.join(t.p.home, node) for node in ("n-a", "n-b")}
        start = {"n-a": lambda: t.agent("n-a", "--image-store", store["n-a"], *lazy, "--no-image-background-fetch"),
                 "n-b": lambda: t.agent("n-b", "--image-store", store["n-b"], *lazy, "--image-background-fetch-delay", "0s")}
        agents = {node: run() for node, run in start.items()}
        t.wait("both nodes Ready", lambda: all(t.node_is(n, "True") for n in store), 30)
        for name in ("a", "b"):
            t.post(PODS, reading_pod(name, registry, "read=0s:/data/0 read=8s:/data/5", f"n-{name}"))
        t.wait("both run", lambda: all(t.pod(n)["status"]["phase"] == "Running" for n in ("a", "b")), 20)
        spans = lambda node: sum(len(files) for _, _, files in os.walk(os.path.join(store[node], "spans")))
        t.wait("b's image is all there", lambda: spans("n-b") == 7, 10)  # six files and the end of the tar
        assert 1 <= spans("n-a") <= 2, spans("n-a")
        before = len(registry.requests)
        registry.state = "refusing"
        status = lambda name: t.pod(name)["status"]["containerStatuses"][0]
        ended = lambda name: status(name).get("lastState", {}).get("terminated") or status(name)["state"].get("terminated")
        t.wait("a's container ends", lambda: ended("a"), 20)
        assert ended("a")["exitCode"] == 1 and ended("a")["reason"] == "Error", ended("a")

        def words():
            code, text = t.p.request("GET", f"{PODS}/a/log?previous=true", raw=True)
            return code == 200 and text.decode().rstrip().endswith("/data/5: Input/output error")
        t.wait("its log says why", words, 20)
        # CrashLoopBackOff itself shows with the sync that follows, a minute later.
        t.wait("it backs off", lambda: status("a")["restartCount"] == 1 and t.events("a", "BackOff"), 30)
        # With its token, without one; then it is known that there is none.
        assert len(registry.requests) - before <= 1 + status("a")["restartCount"] + 1, registry.requests[before:]
        assert t.node_is("n-a", "True")
        assert status("b")["restartCount"] == 0 and status("b")["ready"], status("b")
        # The agents come back without the registry, and nothing is lost.
        registry.state = "expired"
        restarts, tokens = status("a")["restartCount"], registry.count("/token")
        for agent in agents.values():
            agent.terminate()
            agent.wait(20)
        for run in start.values():
            run()
        t.wait("both nodes Ready again", lambda: all(t.node_is(n, "True") for n in store), 30)
        t.wait("a is tried again", lambda: status("a")["restartCount"] > restarts, 40)
        t.wait("and fails again", lambda: not status("a")["state"].get("running"), 30)
        assert status("b")["restartCount"] == 0 and t.running("b"), status("b")
        # One try to log in for each failure.
        tried = status("a")["restartCount"] - restarts + 1
        assert 1 <= registry.count("/token") - tokens <= tried, (registry.count("/token") - tokens, tried)
        # A new password, in the Secret alone: the next container can read.
        registry.state, registry.generation, registry.password = "open", 2, "second"
        t.patch(f"{SECRETS}/pull", {"data": pull_secret(registry)["data"]})
        restarts = status("a")["restartCount"]
        t.wait("a runs anew", lambda: status("a")["restartCount"] == restarts + 1 and status("a")["state"].get("running"), 90)
        t.wait("what it reads has come", lambda: spans("n-a") > 2, 20)
        t.wait("a stays", lambda: time.time() - seconds(status("a")["state"]["running"]["startedAt"]) > 15, 20)
        assert status("a")["restartCount"] == restarts + 1 and status("b")["restartCount"] == 0


@case("C066")
def c066(t):
    """Some transfers of a mass pull stop without an error: they are cut, told, counted and tried again."""
    settings = images_file(t, "  settings: {stalledShare: 0.1, progressTimeout: 5s}\n  images: [{match: '*app*', compressed: 60M}]\n")
    metrics = Metrics(t, t.start("fleet", "--nodes", "100", "--profile", "m5.large", "--name", "m", "--images", settings, "--metrics-port", "0"))
    t.wait("100 nodes", lambda: len(t.items(NODES)) == 100, 60)
    t.create("C066.yaml")
    t.wait("some stall", lambda: metrics("ghostfleet_image_pulls_stalled") > 0, 60)
    mass = lambda: t.items(f"{PODS}?labelSelector=app%3Dmass")
    t.wait("100 pods run", lambda: all_running(mass(), 100), 150)
    t.wait("all are counted", lambda: metrics.pulls("succeeded") == 100, 5)
    assert metrics("ghostfleet_image_pulls_stalled") == 0
    failed = [e["message"] for p in mass() for e in t.events(p["metadata"]["name"], "Failed") if e["message"].startswith("Failed to pull image")]
    assert failed and all("context canceled" in m for m in failed), failed
    assert metrics.pulls("failed") >= len(failed)
