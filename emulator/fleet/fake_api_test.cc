#include <fmt/format.h>

#include <algorithm>

#include "agent/node/json_scan.h"
#include "base/clock.h"
#include "base/digest.h"
#include "emulator/fleet/fake_api.h"
#include "kube/api/kinds.h"
#include "kube/api/patch.h"
#include "kube/client/protobuf_bridge.h"
#include "kube/http/tls.h"

namespace ghostfleet::emulator {

using kube::Json;
using kube::http::Exchange;

namespace {

// Whether an object passes the selectors of a query, as far as the fleet uses them.
bool selected(const std::string& query, const Json& object) {
  for (const auto& [key, value] : kube::http::parse_query(query)) {
    if (key == "labelSelector") {
      const size_t eq = value.find('=');
      const kube::JsonObject* labels = kube::get_object(object, "metadata.labels");
      const Json* label = labels == nullptr ? nullptr : labels->if_contains(value.substr(0, eq));
      if (label == nullptr || !label->is_string() || label->get_string() != value.substr(eq + 1)) return false;
    }
    if (key == "fieldSelector" && value == "spec.nodeName!=") {
      if (kube::get_string(object, "spec.nodeName").empty()) return false;
    } else if (key == "fieldSelector" && value.find("!=") == std::string::npos) {
      const size_t eq = value.find('=');
      if (kube::get_string(object, value.substr(0, eq)) != value.substr(eq + 1)) return false;
    }
  }
  return true;
}

bool is_collection(const std::string& path) {
  // /api/v1/nodes, /api/v1/pods, /apis/g/v/things, and the same below a namespace
  const auto slashes = std::count(path.begin(), path.end(), '/');
  const bool core = path.starts_with("/api/");
  const bool in_namespace = path.find("/namespaces/") != std::string::npos;
  return slashes == (core ? 3 : 4) + (in_namespace ? 2 : 0);
}

// Where objects of a collection live: all pods are listed from every namespace.
bool below(const std::string& path, const std::string& collection) {
  if (path.starts_with(collection + "/")) return true;
  return collection == "/api/v1/pods" && path.starts_with("/api/v1/namespaces/") &&
         path.find("/pods/") != std::string::npos;
}

std::string event_line(std::string_view type, const Json& object) {
  return fmt::format("{{\"type\":\"{}\",\"object\":{}}}\n", type, kube::to_json(object));
}

}  // namespace

FakeApi::FakeApi(uint16_t port, const testing::TestPki& pki) : pki_(pki) {
  const auto pair = pki.server();
  kube::http::ServerOptions options;
  options.port = port;
  options.tls = *kube::http::TlsContext::server({pair.certificate_pem, pair.key_pem, pki.ca_pem(), {"h2", "http/1.1"}});
  auto server = kube::http::Server::listen(options, {&loop_}, [this](std::shared_ptr<Exchange> e) { serve(e); });
  server_ = std::move(server).value();
  thread_ = std::thread([this] { loop_.run(); });
}

FakeApi::~FakeApi() {
  loop_.stop();
  thread_.join();
  watches_.clear();
  server_.reset();
}

kube::ClientConfig FakeApi::config() const {
  kube::ClientConfig c;
  c.server_url = fmt::format("https://127.0.0.1:{}", server_->port());
  c.tls.ca_pem = pki_.ca_pem();
  return c;
}

std::optional<Json> FakeApi::get(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const auto it = objects_.find(path);
  return it == objects_.end() ? std::nullopt : std::optional<Json>(it->second);
}

void FakeApi::put(const std::string& path, Json object) {
  const std::lock_guard lock(mutex_);
  if (kube::get_string(object, "metadata.uid").empty()) {
    kube::set_path(object, "metadata.uid", kube::JsonString(fmt::format("5b0c1c7e-0000-4000-8000-{:012d}", ++uids_)));
  }
  stamp(object);
  const bool fresh = !objects_.contains(path);
  objects_[path] = object;
  tell(fresh ? "ADDED" : "MODIFIED", path, object);
}

void FakeApi::erase(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const auto it = objects_.find(path);
  if (it == objects_.end()) return;
  Json last = it->second;
  objects_.erase(it);
  stamp(last);
  tell("DELETED", path, last);
}

bool FakeApi::edit(const std::string& path, const std::function<void(Json&)>& change) {
  const std::lock_guard lock(mutex_);
  const auto it = objects_.find(path);
  if (it == objects_.end()) return false;
  change(it->second);
  stamp(it->second);
  tell("MODIFIED", path, it->second);
  return true;
}

size_t FakeApi::count(const std::string& prefix) {
  const std::lock_guard lock(mutex_);
  return static_cast<size_t>(
      std::count_if(objects_.begin(), objects_.end(), [&](const auto& o) { return o.first.starts_with(prefix); }));
}

size_t FakeApi::count_ready() {
  const std::lock_guard lock(mutex_);
  return static_cast<size_t>(std::count_if(objects_.begin(), objects_.end(), [](const auto& o) {
    const kube::JsonArray* conditions = kube::get_array(o.second, "status.conditions");
    if (!o.first.starts_with("/api/v1/nodes/") || conditions == nullptr) return false;
    return std::any_of(conditions->begin(), conditions->end(), [](const Json& c) {
      return kube::get_string(c, "type") == "Ready" && kube::get_string(c, "status") == "True";
    });
  }));
}

size_t FakeApi::requests(const std::string& method, const std::string& prefix) {
  const std::lock_guard lock(mutex_);
  const std::string head = method + " " + prefix;
  return static_cast<size_t>(
      std::count_if(log_.begin(), log_.end(), [&](const std::string& l) { return l.starts_with(head); }));
}

size_t FakeApi::in_protobuf(const std::string& prefix) {
  const std::lock_guard lock(mutex_);
  size_t n = 0;
  for (size_t i = 0; i < log_.size(); ++i) n += log_[i].starts_with(prefix) && protobuf_[i] ? 1 : 0;
  return n;
}

std::vector<std::string> FakeApi::log() {
  const std::lock_guard lock(mutex_);
  return log_;
}

void FakeApi::clear_log() {
  const std::lock_guard lock(mutex_);
  log_.clear();
  users_.clear();
  protobuf_.clear();
}

std::set<std::string> FakeApi::users(const std::string& prefix) {
  const std::lock_guard lock(mutex_);
  std::set<std::string> out;
  for (size_t i = 0; i < log_.size(); ++i) {
    if (log_[i].starts_with(prefix)) out.insert(users_[i]);
  }
  return out;
}

void FakeApi::sign_for(long seconds) {
  const std::lock_guard lock(mutex_);
  sign_seconds_ = seconds;
}

void FakeApi::set_raw_fault(RawFault fault) {
  const std::lock_guard lock(mutex_);
  raw_fault_ = std::move(fault);
}

// What the approver and the signer of a controller manager do.
void FakeApi::sign(const std::string& path) {
  Json& object = objects_[path];
  const std::string signer(kube::get_string(object, "spec.signerName"));
  const bool client = signer == "kubernetes.io/kube-apiserver-client-kubelet";
  kube::JsonArray& conditions = kube::ensure_array(object, "status.conditions");
  if (client && conditions.empty()) {
    conditions.emplace_back(kube::JsonObject{{"type", "Approved"}, {"status", "True"}, {"reason", "AutoApproved"}});
  }
  std::string pem;
  if (conditions.empty() || !base64_decode(kube::get_string(object, "spec.request"), &pem)) return;
  const std::string certificate = pki_.sign_request(pem, client, sign_seconds_);
  kube::set_path(object, "status.certificate", kube::JsonString(base64_encode(certificate).c_str()));
  stamp(object);
  tell("MODIFIED", path, object);
}

void FakeApi::set_fault(Fault fault) {
  const std::lock_guard lock(mutex_);
  fault_ = std::move(fault);
}

std::map<std::string, Json> FakeApi::objects() {
  const std::lock_guard lock(mutex_);
  return objects_;
}

void FakeApi::cut_watches() {
  loop_.post([this] {
    std::vector<Watch> watches;
    watches.swap(watches_);
    for (Watch& w : watches) {
      w.exchange->write(share(R"({"type":"MODIFIED","object":{"metadata":{"name":"half)"));
      w.exchange->finish();
    }
  });
}

void FakeApi::stamp(Json& object) {
  kube::set_path(object, "metadata.resourceVersion", kube::JsonString(std::to_string(++version_)));
}

void FakeApi::tell(std::string_view type, const std::string& path, const Json& object) {
  history_.push_back({version_, path, event_line(type, object), object});
  loop_.post([this, line = history_.back().line, path, object] {
    std::erase_if(watches_, [](const Watch& w) { return w.exchange->closed(); });
    for (Watch& w : watches_) {
      if (below(path, w.prefix) && selected(w.query, object)) w.exchange->write(share(line));
    }
  });
}

void FakeApi::answer(Exchange& exchange, int status, const Json& body) {
  kube::http::HeaderList headers;
  headers.add("content-type", "application/json");
  if (status == 429) headers.add("retry-after", "1");
  // In protobuf where it is wanted first and the object has a type.
  if (exchange.request().headers.get("accept").starts_with(kube::kProtobufType)) {
    auto binary = kube::protobuf_of_json(kube::to_json(body));
    if (binary.ok()) {
      headers.set("content-type", std::string(kube::kProtobufType));
      return exchange.respond(status, std::move(headers), share(std::move(*binary)));
    }
  }
  exchange.respond(status, std::move(headers), share(kube::to_json(body)));
}

void FakeApi::serve(const std::shared_ptr<Exchange>& exchange) {
  const auto& request = exchange->request();
  const std::string path(request.path());
  const std::unique_lock lock(mutex_);
  log_.push_back(request.method + " " + request.target);
  users_.push_back(request.peer_certificate ? request.peer_certificate->common_name : "");
  protobuf_.push_back(request.headers.get("content-type") == kube::kProtobufType);
  if (raw_fault_) {
    if (const auto raw = raw_fault_(request.method, request.target)) {
      return exchange->respond(raw->status, {{"content-type", raw->content_type}}, share(raw->body));
    }
  }
  if (fault_) {
    const auto status = fault_(request.method, request.target);
    if (status) return answer(*exchange, *status, kube::JsonObject{{"kind", "Status"}, {"message", "a fault"}});
  }
  if (path == "/version") return answer(*exchange, 200, kube::JsonObject{{"gitVersion", "v1.36.3"}});
  if (request.method == "GET" && is_collection(path)) return list(exchange, path, std::string(request.query()));
  change(*exchange, path, request.target);
}

void FakeApi::list(const std::shared_ptr<Exchange>& exchange, const std::string& path, const std::string& query) {
  const bool watch = query.find("watch=true") != std::string::npos;
  const bool initial = query.find("sendInitialEvents=true") != std::string::npos;
  std::vector<const Json*> items;
  for (const auto& [at, object] : objects_) {
    if (below(at, path) && selected(query, object)) items.push_back(&object);
  }
  if (!watch) {
    kube::JsonArray array;
    for (const Json* item : items) array.push_back(*item);
    return answer(
        *exchange, 200,
        kube::JsonObject{{"kind", "List"},
                         {"metadata", kube::JsonObject{{"resourceVersion", std::to_string(version_).c_str()}}},
                         {"items", std::move(array)}});
  }
  exchange->start(200, {{"content-type", "application/json"}});
  if (initial) {
    for (const Json* item : items) exchange->write(share(event_line("ADDED", *item)));
    exchange->write(share(fmt::format(
        R"({{"type":"BOOKMARK","object":{{"metadata":{{"resourceVersion":"{}","annotations":{{"k8s.io/initial-events-end":"true"}}}}}}}})"
        "\n",
        version_)));
  }
  for (const auto& [key, value] : kube::http::parse_query(query)) {
    if (key != "resourceVersion" || initial) continue;
    const uint64_t since = std::strtoull(value.c_str(), nullptr, 10);
    for (const Past& past : history_) {
      if (past.version > since && below(past.path, path) && selected(query, past.object)) {
        exchange->write(share(past.line));
      }
    }
  }
  watches_.push_back({exchange, path, query});
}

void FakeApi::create(Exchange& exchange, const std::string& path, Json object) {
  if (kube::get_string(object, "metadata.name").empty()) {
    const std::string name = std::string(kube::get_string(object, "metadata.generateName")) + std::to_string(++uids_);
    kube::set_path(object, "metadata.name", kube::JsonString(name.c_str()));
  }
  const std::string at = path + "/" + std::string(kube::get_string(object, "metadata.name"));
  if (objects_.contains(at)) return answer(exchange, 409, kube::JsonObject{{"reason", "AlreadyExists"}});
  kube::set_path(object, "metadata.uid", kube::JsonString(fmt::format("5b0c1c7e-0000-4000-8000-{:012d}", ++uids_)));
  stamp(object);
  objects_[at] = object;
  tell("ADDED", at, object);
  answer(exchange, 201, object);
  if (path.ends_with("/certificatesigningrequests") && sign_seconds_ > 0) sign(at);
}

void FakeApi::change(Exchange& exchange, const std::string& full_path, const std::string&) {
  const auto& request = exchange.request();
  std::string path = full_path;
  if (path.ends_with("/status")) path.resize(path.size() - 7);
  const bool approval = path.ends_with("/approval");
  if (approval) path.resize(path.size() - 9);
  Json given;
  if (!request.body.empty()) {
    const bool binary = request.headers.get("content-type") == kube::kProtobufType;
    const auto text = binary ? kube::json_of_protobuf(request.body) : Result<std::string>(request.body);
    auto parsed = text.ok() ? kube::parse_json(*text) : Result<Json>(text.error());
    if (!parsed.ok()) return answer(exchange, 400, kube::JsonObject{{"message", parsed.error().message().c_str()}});
    given = std::move(parsed).value();
  }
  if (request.method == "POST") return create(exchange, path, std::move(given));
  const auto it = objects_.find(path);
  if (it == objects_.end()) return answer(exchange, 404, kube::JsonObject{{"reason", "NotFound"}});
  if (request.method == "GET") return answer(exchange, 200, it->second);
  if (request.method == "DELETE") {
    const auto uid = kube::get_string(given, "preconditions.uid");
    if (!uid.empty() && uid != kube::get_string(it->second, "metadata.uid")) {
      return answer(exchange, 409, kube::JsonObject{{"reason", "Conflict"}});
    }
    stamp(it->second);
    tell("DELETED", path, it->second);
    objects_.erase(it);
    return answer(exchange, 200, kube::JsonObject{{"status", "Success"}});
  }
  if (request.method == "PUT") {
    if (kube::get_string(given, "metadata.resourceVersion") !=
        kube::get_string(it->second, "metadata.resourceVersion")) {
      return answer(exchange, 409, kube::JsonObject{{"reason", "Conflict"}});
    }
    kube::set_path(given, "metadata.uid", *kube::find_path(it->second, "metadata.uid"));
    it->second = std::move(given);
  } else if (request.headers.get("content-type") == "application/merge-patch+json") {
    it->second = kube::apply_merge_patch(it->second, given);
  } else {
    const bool pod = path.find("/pods/") != std::string::npos;
    const kube::KindInfo* kind = kube::find_kind("", "v1",
                                                 pod                                          ? "Pod"
                                                 : path.find("/events/") != std::string::npos ? "Event"
                                                                                              : "Node");
    auto patched = kube::apply_strategic_merge_patch(it->second, given, *kind->type);
    if (!patched.ok()) return answer(exchange, 422, kube::JsonObject{{"message", patched.error().message.c_str()}});
    it->second = std::move(patched).value();
  }
  stamp(it->second);
  tell("MODIFIED", path, it->second);
  answer(exchange, 200, it->second);
  if (approval && sign_seconds_ > 0) sign(path);
}

}  // namespace ghostfleet::emulator
