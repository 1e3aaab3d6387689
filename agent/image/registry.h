// Registry: the client of one repository of an OCI registry. It authenticates (Bearer and Basic), follows redirects
// without taking credentials to another host, waits when it is told to (429, Retry-After), repeats what failed with
// growing waits, and goes on where a body was cut.
//
// Thread rule: any number of threads; each call blocks. Ownership: HttpClient and CancelFlag outlive the registry.
// Limits: RegistryOptions; kMaxRedirects; an error's body is read to 64 KiB.
// Errors: Unauthenticated, PermissionDenied, NotFound, ResourceExhausted (429 to the end), Unavailable, DataLoss
// (a digest, a length or a range that is not what was asked for). Messages name the registry and the object, never a
// token, and addresses without their query.
// Source: OCI distribution-spec 1.1 (referrers: Listing Referrers, Referrers Tag Schema); soci-snapshotter (repeats);
// cases C057, C063, C065, C066.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "agent/image/auth.h"
#include "agent/image/http.h"
#include "agent/image/manifest.h"
#include "agent/image/reference.h"
#include "base/clock.h"
#include "base/status.h"

namespace ghostfleet::image {

struct RegistryOptions {
  bool plain_http = false;
  DockerConfig credentials;
  int max_attempts = 8;  // in a row without a new byte
  Duration first_wait = std::chrono::milliseconds(30);
  Duration longest_wait = std::chrono::seconds(10);
  Duration longest_retry_after = std::chrono::seconds(60);  // a registry that wants more is given up
};

struct RegistryStats {
  std::atomic<uint64_t> requests{0}, repeats{0}, throttled{0}, logins{0}, redirects{0}, stalls{0}, bytes{0};
};

struct Fetched {
  std::string bytes, content_type, digest;
};

// Takes the bytes of a range in order.
using ByteSink = std::function<Status(std::string_view)>;

class Registry {
 public:
  static constexpr int kMaxRedirects = 5, kMaxReferrerPages = 10;

  Registry(HttpClient* http, const Reference& reference, RegistryOptions options, CancelFlag* cancel);
  ~Registry();

  // By tag or digest; checked against the digest asked for and against Docker-Content-Digest.
  Result<Fetched> manifest(const std::string& target);
  // What refers to a manifest, by the referrers API or, where the registry has none, by the tag that stands in for it
  // (its digest with a dash). Empty: nothing does. At most kMaxReferrerPages pages.
  Result<std::vector<Descriptor>> referrers(const std::string& digest);
  // A whole small blob, checked.
  Result<std::string> small_blob(const Descriptor& blob, size_t limit);

  // Bytes [first, first + length) of a blob, not checked but for their number. `ranged` false: one request for the
  // whole blob (first is 0), and a Range only to go on after a cut.
  // Unimplemented: the registry does not know ranges.
  Status read_range(const Descriptor& blob, uint64_t first, uint64_t length, bool ranged, const ByteSink& sink);
  // Who we are from now on; another one than before logs in anew. Not while a call is on its way.
  void set_credentials(DockerConfig credentials);
  const RegistryStats& stats() const { return stats_; }

 private:
  struct Call;
  class BodySink;

  Result<HttpHead> send(Call* call);
  Result<HttpHead> exchange(Call* call);
  Result<HttpHead> send_once(Call* call);
  // What to do about an answer that is none: OK to send again, or the error to give up with.
  Status handle_refusal(Call* call, const HttpHead& head);
  Status follow(Call* call, const HttpHead& head);
  Status log_in(Call* call, const HttpHead& head);
  bool forget_login(const Call& call);
  Status wait_as_told(Call* call, const HttpHead& head);
  Status wait_to_repeat(Call* call, const Status& why);
  Status fetch_token(const Challenge& challenge);
  Status refused(const Call& call, const HttpHead& head) const;
  Result<std::vector<Descriptor>> referrers_by_tag(const std::string& digest);
  std::string base_url() const;
  std::string blob_path(const Descriptor& blob) const;

  HttpClient* http_;
  Reference reference_;
  RegistryOptions options_;
  CancelFlag* cancel_;
  RegistryStats stats_;
  mutable std::mutex mutex_;          // guards what follows
  std::optional<UserPassword> user_;  // of the registry
  std::string authorization_;
  uint64_t login_ = 0;  // counts them: a 401 to a request sent before the last one needs no further login
  std::map<std::string, std::string> places_;  // blob path → where the last redirect led
};

}  // namespace ghostfleet::image
