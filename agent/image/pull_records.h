// PullRecords: with whose credentials the images of a store were pulled, so that a pod which may not pull an image
// itself is not given it either, because another one has pulled it (a kubelet's KubeletEnsureSecretPulledImages).
//
// In the folder "pulled" of the store: a file for each image (its configuration), and one for each pull that is on its
// way, so that an image whose pull was the last thing an agent did is known to have been pulled. No password is in
// them, and no user: a salted SHA-256 of both.
//
// Thread rule: any thread; what asks reads memory alone, what records writes files. Ownership: the store's folder
// outlives it. Errors of writing are logged: the image then has no record of who may use it, and is asked for again.
// Source: pkg/kubelet/images/pullmanager (image_pull_manager.go, image_pull_policies.go) of Kubernetes 1.36.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "agent/image/auth.h"
#include "agent/image/content_store.h"
#include "agent/image/reference.h"
#include "base/status.h"

namespace ghostfleet::image {

// A kubelet's imagePullCredentialsVerificationPolicy.
enum class VerificationPolicy : unsigned char {
  kNeverVerify,
  kNeverVerifyPreloadedImages,    // images that no agent has pulled are everybody's
  kNeverVerifyAllowlistedImages,  // those of a list are
  kAlwaysVerify
};
Result<VerificationPolicy> parse_verification_policy(std::string_view text);

struct VerificationRules {
  VerificationPolicy policy = VerificationPolicy::kNeverVerifyPreloadedImages;
  std::vector<std::string> allowed;  // REGISTRY/REPOSITORY, or a beginning that ends with "/*"
};
// An entry of the list; InvalidArgument says what is right.
Status check_allowed_image(std::string_view entry);

// A Secret that credentials came from.
struct SecretId {
  std::string ns, name, uid;
  bool operator==(const SecretId&) const = default;
};
struct PodSecret {
  SecretId id;
  DockerConfig config;
};

class PullRecords {
 public:
  // Reads what is there. `images`: those of the store; records of others go, and pulls of theirs that were cut short
  // become records.
  static Result<std::unique_ptr<PullRecords>> open(const std::string& folder, VerificationRules rules,
                                                   const std::vector<ImageRecord>& images);

  // Whether any pod may use an image that is there, without a look at its secrets; then whether one with these may.
  bool open_to_all(const Reference& image, const ImageRecord& record) const;
  bool open_to(const Reference& image, const ImageRecord& record, const std::vector<PodSecret>& secrets);

  // Around a pull: before it, and what came of it. `secret`: whose credentials were used; null: the node's own, or
  // none.
  void begun(const Reference& image);
  void pulled(const Reference& image, const ImageRecord& record, const PodSecret* secret);
  void failed(const Reference& image);
  // The image (its configuration) is gone.
  void forget(const std::string& config);

 private:
  struct Known {
    SecretId id;
    std::string hash;
  };
  struct Access {
    bool everybody = false;
    std::vector<Known> secrets;
  };
  struct Record {
    std::string salt;
    std::map<std::string, Access, std::less<>> images;  // by REGISTRY/REPOSITORY
  };
  PullRecords(std::string folder, VerificationRules rules) : folder_(std::move(folder)), rules_(std::move(rules)) {}
  Status read(const std::vector<ImageRecord>& images);
  bool must_verify(const Reference& image, const std::string& config) const;
  void write(const std::string& config, const std::string& text) const;
  void ended(const std::string& image);  // with files_mutex_ held
  static Result<Record> parse(std::string_view text);
  static std::string text_of(const Record& record);
  static std::string hash_of(const Record& record, const Reference& image, const PodSecret& secret);

  const std::string folder_;  // "pulled" of the store
  const VerificationRules rules_;
  std::mutex files_mutex_;                 // held while files are written; before the other one
  mutable std::mutex mutex_;               // guards what follows, and is held for no file
  std::map<std::string, Record> records_;  // by configuration
  std::multiset<std::string> on_way_;      // images as they were asked for
};

}  // namespace ghostfleet::image
