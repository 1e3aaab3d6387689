"""G8: what kubectl and client-go ask of an API server that is not the stock one. One control plane without nodes for each case."""
import http.client
import json
import time

from case_support import NODES, PATHS, PODS, case, condition, documents, kind_of

STREAM = "watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
END = "k8s.io/initial-events-end"
DEPLOYMENTS = PATHS["Deployment"]


def pod(name, **labels):
    return {"metadata": {"name": name, "labels": labels}, "spec": {"containers": [{"name": "c", "image": "registry.example.test/web:1"}]}}


class Stream:
    """A watch, read line by line."""

    def __init__(self, t, path, **headers):
        self.connection = http.client.HTTPSConnection(t.p.server.split("//")[1], context=t.p.context, timeout=30)
        self.connection.request("GET", path, headers={"Authorization": "Bearer " + t.p.token, **headers})
        self.answer = self.connection.getresponse()

    def next(self):
        event = json.loads(self.answer.readline())
        return event["type"], event["object"]

    def close(self):
        self.connection.close()


@case("C067", "--scheduler", "off")
def c067(t):
    """A list as a watch ends its first part with a bookmark that says so, on an empty collection too; half a request is refused."""
    begin = time.monotonic()
    empty = Stream(t, f"{PODS}?{STREAM}")
    kind, mark = empty.next()
    assert kind == "BOOKMARK" and mark["metadata"]["annotations"][END] == "true", (kind, mark)
    assert (mark["kind"], mark["apiVersion"]) == ("Pod", "v1") and mark["metadata"]["resourceVersion"], mark
    assert time.monotonic() - begin < 10, "an empty collection has nothing to wait for"
    for name in ("one", "two"):
        t.post(PODS, pod(name))
    assert [empty.next()[1]["metadata"]["name"] for _ in range(2)] == ["one", "two"]  # live events follow
    empty.close()
    now = t.p.request("GET", PODS)[1]["metadata"]["resourceVersion"]
    for query in (STREAM, f"{STREAM}&resourceVersion={now}"):
        stream = Stream(t, f"{PODS}?{query}")
        got = [stream.next() for _ in range(3)]
        assert [k for k, _ in got] == ["ADDED", "ADDED", "BOOKMARK"], got
        assert sorted(o["metadata"]["name"] for _, o in got[:2]) == ["one", "two"]
        mark = got[2][1]["metadata"]
        assert mark["annotations"][END] == "true" and int(mark["resourceVersion"]) >= max(int(o["metadata"]["resourceVersion"]) for _, o in got[:2]), mark
        stream.close()
    for path in ("/api/v1/pods?watch=1&sendInitialEvents=true", "/api/v1/pods?sendInitialEvents=true&resourceVersionMatch=NotOlderThan"):
        code, answer = t.p.request("GET", path)
        assert (code, answer["reason"]) == (422, "Invalid"), (path, code, answer)


@case("C069")
def c069(t):
    """Pages of one list are one moment; tokens that make no sense, or are used wrongly, are refused."""
    for i in range(7):
        t.post(PODS, pod(f"p{i}", a="b"))
    page = lambda query: t.p.request("GET", f"{PODS}?{query}")
    code, first = page("limit=2")
    token, version = first["metadata"]["continue"], first["metadata"]["resourceVersion"]
    assert first["metadata"]["remainingItemCount"] == 5, first["metadata"]
    t.post(PODS, pod("p1b"))
    t.delete("p3", 0)
    names, more = [p["metadata"]["name"] for p in first["items"]], token
    while more:
        code, answer = page(f"limit=2&continue={more}")
        assert code == 200 and answer["metadata"]["resourceVersion"] == version, (code, answer["metadata"])
        names += [p["metadata"]["name"] for p in answer["items"]]
        more = answer["metadata"].get("continue")
    assert names == [f"p{i}" for i in range(7)] and "remainingItemCount" not in answer["metadata"], (names, answer["metadata"])
    assert "remainingItemCount" not in page("limit=2&labelSelector=a%3Db")[1]["metadata"]
    assert page("limit=2&continue=garbage")[0] == 400
    assert page(f"limit=2&continue={token}&resourceVersion={version}")[0] == 400

    def expired():
        t.patch(f"{PODS}/p6", {"metadata": {"labels": {"moment": str(time.monotonic())}}})
        return page(f"limit=2&continue={token}")[0] == 410

    t.wait("the history is dropped", expired, 150)  # it holds 75 s
    code, answer = page(f"limit=2&continue={token}")
    assert answer["reason"] == "Expired" and answer["metadata"]["continue"], answer
    names, more = [], answer["metadata"]["continue"]
    while more:
        code, answer = page(f"limit=2&continue={more}")
        assert code == 200, answer
        names += [p["metadata"]["name"] for p in answer["items"]]
        more = answer["metadata"].get("continue")
    assert names == ["p1b", "p2", "p4", "p5", "p6"], names


@case("C071", "--controllers", "none")
def c071(t):
    """Applying what is not there makes it, with the defaults that controllers rely on; applying it again changes nothing."""
    apply = lambda text, query: t.p.request("PATCH", f"{PATHS[kind_of(text)]}/{text.split('name: ')[1].split('}')[0]}?{query}", text.encode(), "application/apply-patch+yaml")
    made = {}
    for text in documents("C071.yaml"):
        code, thing = apply(text, "fieldManager=one")
        assert code == 201 and [m["operation"] for m in thing["metadata"]["managedFields"]] == ["Apply"], (code, thing)
        made[kind_of(text)] = thing["spec"]
        code, again = apply(text, "fieldManager=one")
        assert code == 200 and again["metadata"]["resourceVersion"] == thing["metadata"]["resourceVersion"], (code, again["metadata"])
        assert apply(text, "")[0] in (400, 422)
    deployment, stateful, daemons, job = (made[k] for k in ("Deployment", "StatefulSet", "DaemonSet", "Job"))
    assert (deployment["replicas"], deployment["revisionHistoryLimit"], deployment["progressDeadlineSeconds"]) == (1, 10, 600), deployment
    assert deployment["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}, deployment
    assert (stateful["replicas"], stateful["podManagementPolicy"], stateful["revisionHistoryLimit"]) == (1, "OrderedReady", 10), stateful
    assert (daemons["updateStrategy"]["rollingUpdate"]["maxUnavailable"], daemons["revisionHistoryLimit"]) == (1, 10), daemons
    assert (job["parallelism"], job["completions"], job["backoffLimit"], job["completionMode"]) == (1, 1, 6, "NonIndexed"), job
    for spec, policy in ((deployment, "Always"), (stateful, "IfNotPresent")):  # without a tag the image is the latest
        inner = spec["template"]["spec"]
        assert (inner["restartPolicy"], inner["dnsPolicy"], inner["terminationGracePeriodSeconds"], inner["containers"][0]["imagePullPolicy"]) == ("Always", "ClusterFirst", 30, policy), inner


@case("C072", "--controllers", "none")
def c072(t):
    """Ownership of fields: with oneself there is no conflict, with others one that names them."""
    text = documents("C072.yaml")[0]

    def apply(manager, body, force=False):
        return t.p.request("PATCH", f"{DEPLOYMENTS}/ssa?fieldManager={manager}{'&force=true' if force else ''}", body.encode(), "application/apply-patch+yaml")

    assert apply("a", text)[0] == 201
    assert apply("a", text.replace("replicas: 1", "replicas: 2"))[0] == 200
    alone = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: ssa}\nspec: {replicas: 3}\n"
    code, answer = apply("b", alone)
    causes = answer["details"]["causes"]
    assert (code, answer["reason"], causes[0]["reason"], causes[0]["field"]) == (409, "Conflict", "FieldManagerConflict", ".spec.replicas") and '"a"' in causes[0]["message"], answer
    code, answer = apply("b", alone, force=True)
    owners = [m["manager"] for m in answer["metadata"]["managedFields"] if "f:replicas" in m["fieldsV1"].get("f:spec", {})]
    assert code == 200 and owners == ["b"] and answer["spec"]["replicas"] == 3, (code, owners)
    code, answer = apply("a", text.replace("  replicas: 1\n", ""))
    assert code == 200 and answer["spec"]["replicas"] == 3, answer["spec"]
    side = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: ssa}\nspec: {template: {spec: {containers: [CONTAINERS]}}}\n"
    code, answer = apply("b", side.replace("CONTAINERS", "{name: side, image: x}"), force=True)
    assert code == 200 and [c["name"] for c in answer["spec"]["template"]["spec"]["containers"]] == ["c", "side"], answer["spec"]["template"]
    code, answer = apply("b", side.replace("CONTAINERS", ""))
    assert code == 200 and [c["name"] for c in answer["spec"]["template"]["spec"]["containers"]] == ["c"], answer["spec"]["template"]


@case("C074", "--controllers", "none")
def c074(t):
    """Kinds of patches: merged by key where that is asked for, and unknown kinds refused."""
    t.create("C074.yaml")
    node, deployment = f"{NODES}/n-a1", f"{DEPLOYMENTS}/ab"
    containers = lambda: [(c["name"], c["image"].rsplit("/")[-1]) for c in t.get(deployment)["spec"]["template"]["spec"]["containers"]]
    t.patch(deployment, {"spec": {"template": {"spec": {"containers": [{"name": "b", "image": "x:2"}]}}}}, "strategic")
    assert containers() == [("a", "x:1"), ("b", "x:2")], containers()
    one = lambda kind, status="True": {"type": kind, "status": status}
    t.patch(f"{node}/status", {"status": {"conditions": [one("X"), one("Y")]}}, "strategic")
    t.patch(f"{node}/status", {"status": {"$setElementOrder/conditions": [{"type": "Y"}, {"type": "Z"}], "conditions": [{"$patch": "delete", "type": "X"}, one("Y", "False"), one("Z")]}}, "strategic")
    types = [(c["type"], c["status"]) for c in t.get(node)["status"]["conditions"]]
    assert types == [("Y", "False"), ("Z", "True")], types
    t.patch(node, {"spec": {"unschedulable": True}})
    assert t.get(node)["spec"]["unschedulable"] is True
    t.patch(node, {"spec": {"unschedulable": None}})
    assert "unschedulable" not in t.get(node)["spec"]
    version = t.get(node)["metadata"]["resourceVersion"]
    t.patch(node, [{"op": "test", "path": "/metadata/name", "value": "other"}, {"op": "add", "path": "/metadata/labels/x", "value": "y"}], "json", 422)
    assert t.get(node)["metadata"]["resourceVersion"] == version
    for kind in ("application/json", "text/plain"):
        code, answer = t.p.request("PATCH", node, {"spec": {}}, kind)
        assert (code, answer["reason"]) == (415, "UnsupportedMediaType"), (code, answer)  # a stock server does not list what it takes either
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.example.test"}, "spec": {
        "group": "example.test", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing", "singular": "thing", "listKind": "ThingList"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}}
    t.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    things = "/apis/example.test/v1/namespaces/default/things"
    t.wait("the custom kind is served", lambda: t.p.request("GET", things)[0] == 200, 20)
    t.post(things, {"apiVersion": "example.test/v1", "kind": "Thing", "metadata": {"name": "x"}})
    t.patch(f"{things}/x", {"spec": {"a": 1}}, "strategic", 415)


@case("C076")
def c076(t):
    """Accept headers as clients send them: discovery, tables, protobuf, and watches of tables."""
    aggregated = ("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json")
    table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"

    def get(path, accept):
        connection = http.client.HTTPSConnection(t.p.server.split("//")[1], context=t.p.context, timeout=30)
        connection.request("GET", path, headers={"Authorization": "Bearer " + t.p.token, "Accept": accept})
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        return answer, data

    for path in ("/apis", "/api"):
        answer, data = get(path, aggregated)
        assert answer.status == 200 and json.loads(data)["kind"] == "APIGroupDiscoveryList", (path, answer.status)
        kind = answer.getheader("Content-Type").replace(" ", "")
        assert all(part in kind for part in ("g=apidiscovery.k8s.io", "v=v2", "as=APIGroupDiscoveryList")) and answer.getheader("ETag"), (kind, answer.getheader("ETag"))
        assert json.loads(get(path, "application/json")[1])["kind"] == ("APIGroupList" if path == "/apis" else "APIVersions")
    t.post(PODS, pod("p"))
    columns = lambda path: [c["name"] for c in json.loads(get(path, table)[1])["columnDefinitions"]]
    assert columns("/api/v1/pods")[:8] == ["Name", "Ready", "Status", "Restarts", "Age", "IP", "Node", "Nominated Node"], columns("/api/v1/pods")
    assert columns("/api/v1/nodes")[:5] == ["Name", "Status", "Roles", "Age", "Version"], columns("/api/v1/nodes")
    rows = json.loads(get("/api/v1/pods", table)[1])["rows"]
    assert rows[0]["object"]["kind"] == "PartialObjectMetadata" and rows[0]["cells"][0] == "p", rows
    stream = Stream(t, "/api/v1/pods?watch=1", Accept=table)
    kind, thing = stream.next()
    assert kind == "ADDED" and thing["kind"] == "Table" and thing["rows"][0]["cells"][0] == "p", thing
    stream.close()
    answer, data = get("/api/v1/pods", "application/vnd.kubernetes.protobuf")
    assert answer.status == 406 or (answer.status == 200 and data.startswith(b"k8s\0")), (answer.status, data[:20])
    for path, accept in (("/openapi/v3", "*/*"), ("/openapi/v2", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"), ("/version", "*/*"), ("/readyz", "*/*")):
        answer, data = get(path, accept)
        assert answer.status == 200, (path, answer.status, data[:300])
