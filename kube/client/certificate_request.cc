#include "kube/client/certificate_request.h"

#include <fmt/format.h>

#include "base/digest.h"
#include "kube/api/json.h"
#include "kube/client/reflector.h"

namespace ghostfleet::kube {
namespace {

class SigningAttempt final : public CertificateRequest, public ReflectorHandler {
 public:
  SigningAttempt(KubeClient& client, CertificateRequestOptions options, Done done)
      : client_(client), options_(std::move(options)), done_(std::move(done)) {}
  ~SigningAttempt() override {
    *alive_ = false;
    client_.cancel(call_);
    if (options_.approver != nullptr) options_.approver->cancel(approval_);
    client_.loop().cancel(timer_);
  }

  void begin();
  void on_added(const ObjectView& object) override { seen(object.json); }
  void on_modified(const ObjectView& object) override { seen(object.json); }
  void on_deleted(const ObjectView&) override { end(unavailable(text("was deleted"))); }
  void on_synced() override {}
  // Without the right to watch it there is nothing to wait for.
  void on_error(const Status& status, int http_status) override {
    if (http_status == 403 || http_status == 401) end(status);
  }

 private:
  void created(const ApiCallResult& result);
  void take_name(const std::string& body);
  void approve();
  void approval_read(const ApiCallResult& result);
  void list();
  void watch();
  void seen(std::string_view json);
  void end(Result<std::string> result);
  std::string path() const { return std::string(kSigningRequests) + "/" + options_.name; }
  std::string selector() const { return "metadata.name=" + options_.name; }
  std::string text(std::string_view what) const {
    return fmt::format("certificate signing request {} {}", options_.name, what);
  }
  template <class F>
  ApiCallback guarded(F f) {
    return [alive = alive_, f](ApiCallResult result) {
      if (*alive) f(result);
    };
  }

  KubeClient& client_;
  CertificateRequestOptions options_;
  Done done_;
  std::string uid_;
  ApiCallId call_ = 0, approval_ = 0;
  EventLoop::TimerId timer_ = 0;
  std::unique_ptr<Reflector> reflector_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

void SigningAttempt::begin() {
  JsonArray usages;
  for (const std::string& usage : options_.usages) usages.emplace_back(usage.c_str());
  JsonObject metadata;
  if (options_.name.empty()) {
    metadata["generateName"] = "csr-";
  } else {
    metadata["name"] = options_.name;
  }
  JsonObject spec{{"request", base64_encode(options_.request_pem)}, {"signerName", options_.signer}};
  spec["usages"] = std::move(usages);
  ApiCall call;
  call.method = "POST";
  call.target = kSigningRequests;
  call.body = to_json(JsonObject{{"kind", "CertificateSigningRequest"},
                                 {"apiVersion", "certificates.k8s.io/v1"},
                                 {"metadata", std::move(metadata)},
                                 {"spec", std::move(spec)}});
  call_ = client_.call(std::move(call), guarded([this](const ApiCallResult& r) { created(r); }));
  timer_ = client_.loop().run_after(options_.patience, [this, alive = alive_] {
    if (*alive) end(Status(Code::kDeadlineExceeded, text("was not signed in time: is it approved?")));
  });
}

void SigningAttempt::created(const ApiCallResult& result) {
  call_ = 0;
  if (result.status == 409 && !options_.name.empty()) {  // made by an earlier attempt
    ApiCall call;
    call.target = path();
    call_ = client_.call(std::move(call), guarded([this](const ApiCallResult& r) {
                           call_ = 0;
                           if (!r.ok()) return end(r.to_status("reading " + text("")));
                           take_name(r.body);
                         }));
    return;
  }
  if (!result.ok()) return end(result.to_status("creating a certificate signing request"));
  take_name(result.body);
}

void SigningAttempt::take_name(const std::string& body) {
  const auto object = parse_json(body);
  if (object.ok()) {
    options_.name = get_string(*object, "metadata.name");
    uid_ = get_string(*object, "metadata.uid");
  }
  if (options_.name.empty() || uid_.empty()) {
    return end(Status(Code::kDataLoss, "the answer to a certificate signing request is none"));
  }
  if (options_.approver != nullptr) approve();
  list();
}

void SigningAttempt::approve() {
  ApiCall call;
  call.target = path();
  approval_ = options_.approver->call(std::move(call), guarded([this](const ApiCallResult& r) { approval_read(r); }));
}

void SigningAttempt::approval_read(const ApiCallResult& result) {
  approval_ = 0;
  auto object = result.ok() ? parse_json(result.body) : Result<Json>(result.to_status("approving " + text("")));
  if (!object.ok()) return end(object.error());
  ensure_array(*object, "status.conditions")
      .emplace_back(JsonObject{{"type", "Approved"},
                               {"status", "True"},
                               {"reason", "FleetApproved"},
                               {"message", "Approved by the fleet this node belongs to."}});
  ApiCall call;
  call.method = "PUT";
  call.target = path() + "/approval";
  call.body = to_json(*object);
  approval_ = options_.approver->call(std::move(call), guarded([this](const ApiCallResult& r) {
                                        approval_ = 0;
                                        if (!r.ok() && r.status != 409) end(r.to_status("approving " + text("")));
                                      }));
}

// A kubelet finds out with one list whether the server knows this version of the API.
void SigningAttempt::list() {
  ApiCall call;
  call.target = std::string(kSigningRequests) + "?fieldSelector=" + http::percent_encode(selector());
  call_ = client_.call(std::move(call), guarded([this](const ApiCallResult& result) {
                         call_ = 0;
                         if (!result.ok()) return end(result.to_status("listing " + text("")));
                         watch();
                       }));
}

void SigningAttempt::watch() {
  ReflectorOptions options;
  options.path = kSigningRequests;
  options.field_selector = selector();
  options.seed = options_.seed;
  reflector_ = Reflector::create(client_, std::move(options), this);
  reflector_->start();
}

void SigningAttempt::seen(std::string_view json) {
  const auto object = parse_json(json);
  if (!object.ok()) return;
  if (get_string(*object, "metadata.uid") != uid_) return end(unavailable(text("was replaced by another")));
  bool approved = false;
  if (const JsonArray* conditions = get_array(*object, "status.conditions")) {
    for (const Json& c : *conditions) {
      const std::string_view type = get_string(c, "type");
      if (type == "Denied" || type == "Failed") {
        return end(Status(Code::kPermissionDenied, text(type == "Denied" ? "was denied: " : "failed: ") +
                                                       std::string(get_string(c, "message"))));
      }
      approved = approved || type == "Approved";
    }
  }
  std::string pem;
  if (!approved || !base64_decode(get_string(*object, "status.certificate"), &pem) || pem.empty()) return;
  end(std::move(pem));
}

// From the loop: the caller may destroy us, and we may be inside a callback of the reflector.
void SigningAttempt::end(Result<std::string> result) {
  if (!done_) return;
  if (reflector_) reflector_->stop();
  client_.loop().cancel(timer_);
  client_.loop().post([alive = alive_, done = std::exchange(done_, nullptr), result = std::move(result)]() mutable {
    if (*alive) done(std::move(result));
  });
}

}  // namespace

std::unique_ptr<CertificateRequest> CertificateRequest::start(KubeClient& client, CertificateRequestOptions options,
                                                              Done done) {
  auto attempt = std::make_unique<SigningAttempt>(client, std::move(options), std::move(done));
  attempt->begin();
  return attempt;
}

}  // namespace ghostfleet::kube
