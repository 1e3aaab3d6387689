"""Devices of device plugins: unhealthy, lost and absent ones, restarts of agent and machine, contiguity, accounting."""
import os
import time
import uuid

from case_support import NODES, PATHS, PODS, SHORT_GRACE, case, condition, documents, kind_of

GPU, RADIO, DONGLE, NEURON = "nvidia.com/gpu", "example.test/radio", "example.test/dongle", "aws.amazon.com/neuron"
UNHEALTHY, PLUGINS = "devices.ghostfleet.dev/unhealthy", "devices.ghostfleet.dev/plugins"


def shown(t, node, resource):
    """Capacity and allocatable."""
    status = t.get(f"{NODES}/{node}")["status"]
    return status["capacity"].get(resource), status["allocatable"].get(resource)


def annotate(t, node, key, value):
    t.patch(f"{NODES}/{node}", {"metadata": {"annotations": {key: value}}})


def ids(pod):
    """Of the first container, each with its health."""
    told = (pod["status"].get("containerStatuses") or [{}])[0].get("allocatedResourcesStatus") or []
    return {device["resourceID"]: device["health"] for entry in told for device in entry["resources"]}


def phase(t, name):
    return ((t.pod(name) or {}).get("status") or {}).get("phase")


def why_pending(pod):
    found = [c for c in pod["status"].get("conditions") or [] if c["type"] == "PodScheduled" and c["status"] == "False"]
    return found[0]["message"] if found else ""


def owned(t, app):
    return t.items(f"{PODS}?labelSelector=app%3D{app}")


def wants(name, resource, count, node=None, **annotations):
    spec = {"containers": [{"name": "c", "image": "registry.example.test/a:1", "resources": {"limits": {resource: count}}}], "restartPolicy": "Never" if annotations else "Always"}
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    words = {f"behavior.ghostfleet.dev/{key}": value for key, value in annotations.items()}
    return {"metadata": {"name": name, "annotations": words}, "spec": spec}


def restart(t, agent, node, *words, capacity):
    agent.kill()
    agent.wait()
    return t.agent(node, *words, capacity=capacity)


@case("C038")
def c038(t):
    """A lost GPU takes only itself away: the pod that lacks one waits, the pod that had one runs on."""
    t.create("C038.yaml")
    t.agent("g-4", "--device-plugins", capacity=f"cpu=64,memory=512Gi,pods=110,{GPU}=4")
    t.wait("three pods Ready", lambda: t.count("app%3Dinfer") == 3, 40)
    before = {d: p["metadata"]["name"] for p in owned(t, "infer") for d in ids(p)}
    assert len(before) == 3, before
    annotate(t, "g-4", UNHEALTHY, f"{GPU}=3")
    t.wait("three of four can be had", lambda: shown(t, "g-4", GPU) == ("4", "3"), 11)
    t.patch(f"{PATHS['Deployment']}/infer", {"spec": {"replicas": 4}})
    t.wait("the fourth pod waits", lambda: any(f"Insufficient {GPU}" in why_pending(p) for p in owned(t, "infer")), 20)
    annotate(t, "g-4", UNHEALTHY, f"{GPU}=3,0")
    t.wait("two of four can be had", lambda: shown(t, "g-4", GPU) == ("4", "2"), 11)
    t.wait("one pod is told so", lambda: sum("Unhealthy" in ids(p).values() for p in owned(t, "infer")) == 1, 10)
    time.sleep(3)
    pods = owned(t, "infer")
    assert sorted(p["status"]["phase"] for p in pods) == ["Pending", "Running", "Running", "Running"], pods
    assert {d: p["metadata"]["name"] for p in pods for d in ids(p)} == before
    assert t.node_is("g-4", "True")
    annotate(t, "g-4", UNHEALTHY, f"{GPU}=4")  # there is none: told, and nothing changes
    t.wait("the agent says what is wrong", lambda: '"4": 0 to 3 are there' in open(t.children[0].log).read(), 10)
    assert shown(t, "g-4", GPU) == ("4", "2")


@case("C040")
def c040(t):
    """All unhealthy, registration lost, never started: 8/0, 0/0 and no key; a plugin that is gone: 8/0 until it is back."""
    absent = os.path.join(t.p.home, "devices.yaml")
    with open(absent, "w") as f:
        f.write(f"absentPlugins: [{GPU}]\n")
    capacity = f"cpu=8,memory=32Gi,pods=110,{GPU}=8"
    t.agent("sick", "--device-plugins", capacity=capacity)
    t.agent("lost", "--device-plugins", capacity=capacity)
    t.agent("never", "--devices", absent, capacity=capacity)
    t.wait("nodes Ready", lambda: all(t.get(f"{NODES}/{n}") and t.node_is(n, "True") for n in ("sick", "lost", "never")), 30)
    assert shown(t, "never", GPU) == (None, None)
    t.post(PODS, wants("user", GPU, 3, "sick"))
    t.wait("a pod runs", lambda: t.running("user"), 20)
    assert shown(t, "sick", GPU) == ("8", "8")  # what is free is the scheduler's affair
    annotate(t, "sick", UNHEALTHY, f"{GPU}=0,1,2,3,4,5,6,7")
    annotate(t, "lost", PLUGINS, f"{GPU}=gone")
    t.wait("all unhealthy", lambda: shown(t, "sick", GPU) == ("8", "0"), 11)
    t.wait("plugin gone", lambda: shown(t, "lost", GPU) == ("8", "0"), 11)
    annotate(t, "lost", PLUGINS, None)
    t.wait("plugin back", lambda: shown(t, "lost", GPU) == ("8", "8"), 11)
    annotate(t, "lost", PLUGINS, f"{GPU}=lost")
    t.wait("registration lost", lambda: shown(t, "lost", GPU) == ("0", "0"), 11)
    t.post(PODS, wants("waits", GPU, 1))
    t.wait("it is Pending", lambda: f"3 Insufficient {GPU}" in why_pending(t.pod("waits")), 20)
    assert t.running("user") and set(ids(t.pod("user")).values()) == {"Unhealthy"}


@case("C041", *SHORT_GRACE)
def c041(t):
    """After a restart of the agent pods run on; after a reboot those that come before their plugin fail, once."""
    capacity = f"cpu=8,memory=32Gi,pods=110,{RADIO}=2"
    t.create("C041.yaml")
    agent = t.agent("g-1dev", "--device-plugins", capacity=capacity)
    t.wait("both Ready", lambda: t.running("bare") and t.count("app%3Downed") == 1, 40)
    bare, first = t.pod("bare"), owned(t, "owned")[0]
    stays = lambda: [(p["metadata"]["uid"], p["status"]["phase"], p["status"]["containerStatuses"][0]["restartCount"]) for p in (t.pod("bare"), owned(t, "owned")[0])]
    before, held = stays(), (ids(bare), ids(first))
    agent = restart(t, agent, "g-1dev", "--device-plugins", "--plugin-delay", "15s", capacity=capacity)
    t.wait("no radios until their plugin is there", lambda: shown(t, "g-1dev", RADIO) == ("0", "0"), 15)
    assert stays() == before
    t.wait("radios again", lambda: shown(t, "g-1dev", RADIO) == ("2", "2"), 30)
    assert stays() == before and (ids(t.pod("bare")), ids(owned(t, "owned")[0])) == held
    boot, agent_ended = t.get(f"{NODES}/g-1dev")["status"]["nodeInfo"]["bootID"], agent.kill()
    agent.wait()
    t.wait("the node is lost", lambda: t.node_is("g-1dev", "Unknown"), 60)
    t.agent("g-1dev", "--device-plugins", "--plugin-delay", "30s", "--boot-id", str(uuid.uuid4()), capacity=capacity)
    t.wait("the bare pod fails", lambda: phase(t, "bare") == "Failed", 25)
    status = t.pod("bare")["status"]
    assert status["reason"] == "UnexpectedAdmissionError" and f"no healthy devices present; cannot allocate unhealthy devices {RADIO}" in status["message"], status
    t.wait("radios again", lambda: shown(t, "g-1dev", RADIO) == ("2", "2"), 45)
    t.wait("the Deployment's pod runs", lambda: t.count("app%3Downed") == 1, 60)
    failed = [p for p in owned(t, "owned") if p["status"]["phase"] == "Failed"]
    assert 1 <= len(failed) <= 5 and phase(t, "bare") == "Failed", failed
    node = t.get(f"{NODES}/g-1dev")
    assert node["status"]["nodeInfo"]["bootID"] != boot and condition(node, "Ready")[0] == "True"


@case("C043")
def c043(t):
    """Extended resources over a restart of the agent: kept, or 0 until a plugin or a person gives a value again."""
    capacity = f"cpu=192,memory=2048Gi,pods=110,{GPU}=8"
    texts = documents("C043.yaml")
    t.post(NODES, texts[0].encode(), "application/yaml")
    agent = t.agent("n-ext", "--device-plugins", capacity=capacity)
    t.wait("node Ready", lambda: t.node_is("n-ext", "True"), 30)
    give = [{"op": "add", "path": "/status/capacity/example.test~1dongle", "value": "4"}]
    t.patch(f"{NODES}/n-ext/status", give, "json")
    t.wait("allocatable follows", lambda: shown(t, "n-ext", DONGLE) == ("4", "4"), 11)
    for text in texts[1:]:
        t.post(PATHS[kind_of(text)], text.encode(), "application/yaml")
    t.wait("both Ready", lambda: t.running("d") and t.running("g"), 30)
    uids = [t.pod(n)["metadata"]["uid"] for n in "dg"]
    agent = restart(t, agent, "n-ext", "--device-plugins", capacity=capacity)
    t.wait("the agent is back", lambda: "kept" in open(t.children[-1].log).read() and t.node_is("n-ext", "True"), 20)
    time.sleep(5)
    assert (shown(t, "n-ext", DONGLE), shown(t, "n-ext", GPU)) == (("4", "4"), ("8", "8"))
    restart(t, agent, "n-ext", "--device-plugins", "--plugin-delay", "15s", capacity=capacity)
    t.wait("both are 0", lambda: (shown(t, "n-ext", DONGLE), shown(t, "n-ext", GPU)) == (("0", "0"), ("0", "0")), 20)
    assert "become 0" in open(t.children[-1].log).read()
    t.wait("the GPUs are back", lambda: shown(t, "n-ext", GPU) == ("8", "8"), 30)
    assert shown(t, "n-ext", DONGLE) == ("0", "0")
    assert [t.pod(n)["metadata"]["uid"] for n in "dg"] == uids and t.running("d") and t.running("g")
    t.patch(f"{NODES}/n-ext/status", give, "json")
    t.wait("allocatable follows again", lambda: shown(t, "n-ext", DONGLE) == ("4", "4"), 11)


def fill_and_take(t, mode):
    """A node of four Neuron devices, each taken by a pod; then two with a gap are free, and a pod wants two."""
    node, texts = f"inf-{mode}", [text.replace("inf-4", f"inf-{mode}") for text in documents("C046.yaml")]
    settings = os.path.join(t.p.home, f"{mode}.yaml")
    with open(settings, "w") as f:
        f.write(f"neuronContiguity: {mode}\n")
    t.post(NODES, texts[0].encode(), "application/yaml")
    t.agent(node, "--devices", settings, capacity=f"cpu=24,memory=48Gi,pods=110,{NEURON}=4")
    t.wait(f"{node} Ready", lambda: t.node_is(node, "True"), 30)
    for n, name in enumerate("abcd"):
        t.post(PODS, wants(f"{name}-{mode}", NEURON, 1, node))
        t.wait("it runs", lambda: t.running(f"{name}-{mode}"), 20)
        assert list(ids(t.pod(f"{name}-{mode}"))) == [f"neuron-{n}"]
    for name in "ac":
        t.delete(f"{name}-{mode}", 0)
        t.wait("it is gone", lambda: t.pod(f"{name}-{mode}") is None, 20)
    t.post(PODS, wants(f"e-{mode}", NEURON, 2, node))
    return f"e-{mode}"


@case("C044")
def c044(t):
    """Requests for devices that a stock server refuses are refused, with its words; through a Deployment too. Suffixes are numbers."""
    limits, requests = "spec.containers[0].resources.limits", "spec.containers[0].resources.requests"
    whole, positive = "must be an integer", "must be greater than or equal to 0"
    refused = {
        "r-lt-l": [(requests, 'Invalid value: "1": must be equal to nvidia.com/gpu limit of 3')],
        "frac": [(f"{at}[{GPU}]", f'Invalid value: "500m": {whole}') for at in (limits, requests)],
        "req-only": [(limits, "Required value: Limit must be set for non overcommitable resources")],
        "neg": [(f"{at}[{GPU}]", f'Invalid value: "-1": {positive}') for at in (limits, requests)],
    }
    taken = {"ok-limit-only": "1", "suffix": "10Gi", "ok-k": "1k"}
    names = (*taken, *refused)
    for text in documents("C044.yaml"):
        name = next(n for n in names if f"{{name: {n}}}" in text)
        code, answer = t.p.request("POST", PODS, text.encode(), "application/yaml")
        if name in taken:
            assert code == 201, (name, answer)
            assert answer["spec"]["containers"][0]["resources"]["requests"][GPU] == taken[name], answer["spec"]
            continue
        assert (code, answer["reason"]) == (422, "Invalid"), (name, code, answer)
        assert [(c["field"], c["message"]) for c in answer["details"]["causes"]] == refused[name], (name, answer["details"])
    assert {pod["metadata"]["name"] for pod in t.items(PODS)} == set(taken)
    container = {"name": "c", "image": "registry.example.test/g:1", "resources": {"limits": {GPU: "0.5"}}}
    sets = "/apis/apps/v1/namespaces/default/replicasets"
    template = {"metadata": {"labels": {"app": "frac"}}, "spec": {"containers": [container]}}
    t.post(sets, {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "frac"}, "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "frac"}}, "template": template}}, code=422)


@case("C046")
def c046(t):
    """Two Neuron devices with a gap: the runtime ends, does not care, or the pod waits for better ones."""
    e = fill_and_take(t, "ignore")
    t.wait("it runs", lambda: t.running(e), 20)
    assert list(ids(t.pod(e))) == ["neuron-0", "neuron-2"]
    e = fill_and_take(t, "fault")
    restarts = lambda: t.pod(e)["status"]["containerStatuses"][0]["restartCount"]
    moments = []
    for n in (1, 2, 3):
        t.wait(f"restart {n}", lambda: restarts() >= n, 45)
        moments.append(time.monotonic())
    # At once, after 10 s, after 20 s; `CrashLoopBackOff` itself shows with the sync that follows, a minute later.
    assert 8 < moments[1] - moments[0] < 20 and 18 < moments[2] - moments[1] < 35, moments
    assert any("Back-off restarting failed container c" in event["message"] for event in t.events(e, "BackOff"))
    last = t.pod(e)["status"]["containerStatuses"][0]["lastState"]["terminated"]
    assert last["exitCode"] == 1 and list(ids(t.pod(e))) == ["neuron-0", "neuron-2"], last
    e = fill_and_take(t, "extension")
    t.wait("it is bound", lambda: t.pod(e)["spec"].get("nodeName"), 10)
    time.sleep(5)
    assert phase(t, e) == "Pending" and not ids(t.pod(e))
    t.delete("d-extension", 0)
    t.wait("it runs", lambda: t.running(e), 20)
    assert list(ids(t.pod(e))) == ["neuron-2", "neuron-3"]


@case("C047")
def c047(t):
    """What is in use is what pods that have not ended ask for: over restarts, re-installs and ended pods."""
    namespaces, sets = "/api/v1/namespaces", "/apis/apps/v1/namespaces/devsys/daemonsets"
    capacity = f"cpu=32,memory=128Gi,pods=110,{NEURON}=1"
    texts = documents("C047.yaml")
    t.post(NODES, texts[0].encode(), "application/yaml")
    agent = t.agent("inf-1", "--device-plugins", capacity=capacity)

    def plugin_runs():
        return any(condition(p, "Ready")[0] == "True" for p in t.items("/api/v1/namespaces/devsys/pods"))

    def install():
        t.post(namespaces, texts[1].encode(), "application/yaml")
        t.post(sets, texts[2].encode(), "application/yaml")
        t.wait("the plugin's pod Ready", plugin_runs, 40)

    def run_w():
        t.post(PODS, texts[3].encode(), "application/yaml")
        t.wait("w Ready", lambda: t.running("w"), 30)
        assert ids(t.pod("w")) == {"neuron-0": "Healthy"}

    install()
    agent = restart(t, agent, "inf-1", "--device-plugins", capacity=capacity)
    run_w()
    uid = t.pod("w")["metadata"]["uid"]
    agent = restart(t, agent, "inf-1", "--device-plugins", capacity=capacity)
    code, _ = t.p.request("DELETE", f"{namespaces}/devsys")
    assert code == 200, code
    t.wait("the namespace is gone", lambda: t.get(f"{namespaces}/devsys") is None, 40)
    install()
    assert t.running("w") and t.pod("w")["metadata"]["uid"] == uid and ids(t.pod("w")) == {"neuron-0": "Healthy"}
    for code, end in ((0, "Succeeded"), (1, "Failed")):
        t.delete("w", 0)
        t.wait("w gone", lambda: t.pod("w") is None, 20)
        t.post(PODS, wants(end.lower(), NEURON, 1, c=f"exit={code} after=1s"))
        t.wait(f"a pod {end}", lambda: phase(t, end.lower()) == end, 30)
        run_w()
        agent = restart(t, agent, "inf-1", "--device-plugins", capacity=capacity)
        t.wait("the node heard of again", lambda: t.node_is("inf-1", "True"), 20)
        t.post(PODS, wants(f"too-many-{code}", NEURON, 1))
        t.wait("one more has no room", lambda: f"Insufficient {NEURON}" in why_pending(t.pod(f"too-many-{code}")), 20)
        t.delete(f"too-many-{code}", 0)
        assert t.running("w")
