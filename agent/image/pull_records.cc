#include "agent/image/pull_records.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "agent/image/digest.h"
#include "base/digest.h"
#include "base/files.h"
#include "base/log.h"
#include "kube/api/json.h"

namespace ghostfleet::image {
namespace {

constexpr size_t kMaxRecordBytes = 1u << 20;
constexpr size_t kMaxSecrets = 100;  // as a kubelet: beyond that what matches is not written down
constexpr std::string_view kOnWay = "on-way-";

std::string repository_of(const Reference& image) { return image.registry + "/" + image.repository; }

std::string new_salt() {
  unsigned char bytes[16] = {};
  size_t have = 0;
  while (have < sizeof bytes) {
    const ssize_t n = getrandom(bytes + have, sizeof bytes - have, 0);
    if (n > 0) have += static_cast<size_t>(n);
  }
  std::string out;
  for (const unsigned char b : bytes) out += fmt::format("{:02x}", b);
  return out;
}

}  // namespace

Result<VerificationPolicy> parse_verification_policy(std::string_view text) {
  if (text == "NeverVerify") return VerificationPolicy::kNeverVerify;
  if (text == "NeverVerifyPreloadedImages") return VerificationPolicy::kNeverVerifyPreloadedImages;
  if (text == "NeverVerifyAllowlistedImages") return VerificationPolicy::kNeverVerifyAllowlistedImages;
  if (text == "AlwaysVerify") return VerificationPolicy::kAlwaysVerify;
  return invalid_argument(fmt::format(
      "\"{}\": NeverVerify, NeverVerifyPreloadedImages, NeverVerifyAllowlistedImages or AlwaysVerify is expected",
      text));
}

Status check_allowed_image(std::string_view entry) {
  const bool beginning = entry.ends_with("/*");
  const std::string_view plain = beginning ? entry.substr(0, entry.size() - 2) : entry;
  const auto reference = parse_reference(std::string(plain) + (beginning ? "/a" : ""));
  const std::string whole = reference.ok() ? repository_of(*reference) : std::string();
  if (!plain.empty() && plain.find('*') == std::string_view::npos &&
      whole == std::string(plain) + (beginning ? "/a" : ""))
    return Status();
  return invalid_argument(
      fmt::format("\"{}\": REGISTRY/REPOSITORY without tag and digest, or a beginning of one with /* is expected, e.g. "
                  "registry.example/team/*",
                  entry));
}

Result<std::unique_ptr<PullRecords>> PullRecords::open(const std::string& folder, VerificationRules rules,
                                                       const std::vector<ImageRecord>& images) {
  std::unique_ptr<PullRecords> out(new PullRecords(folder + "/pulled", std::move(rules)));
  GF_RETURN_IF_ERROR(make_directories(out->folder_).with_context("image store"));
  GF_RETURN_IF_ERROR(out->read(images));
  return out;
}

Status PullRecords::read(const std::vector<ImageRecord>& images) {
  const Fd folder(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return system_status(folder_, errno);
  auto names = names_in(folder.get());
  if (!names.ok()) return names.error();
  std::set<std::string> made;
  for (const std::string& name : *names) {
    const std::string path = folder_ + "/" + name;
    const bool on_way = name.starts_with(kOnWay);
    if (!on_way && !name.ends_with(".json")) continue;
    const std::string config = on_way ? std::string() : "sha256:" + name.substr(0, name.size() - 5);
    const bool there = std::any_of(images.begin(), images.end(),
                                   [&config](const ImageRecord& image) { return image.config == config; });
    if (!on_way && !there) {
      unlink(path.c_str());
      continue;
    }
    auto text = read_file(path, kMaxRecordBytes);
    if (!text.ok()) continue;
    if (on_way) {
      // A pull that was cut short: whose credentials it had is not known, so that everybody's are looked at.
      for (const ImageRecord& image : images) {
        if (image.reference == *text) made.insert(image.config);
      }
      unlink(path.c_str());
      continue;
    }
    auto record = parse(*text);
    if (!record.ok())
      log_warn("image", fmt::format("{}: {}; nobody is taken to have pulled it", path, record.error().message()));
    if (record.ok()) records_[config] = std::move(*record);
    if (!record.ok()) made.insert(config);
  }
  for (const std::string& config : made) {
    const auto [it, fresh] = records_.try_emplace(config, Record{new_salt(), {}});
    if (fresh) write(config, text_of(it->second));
  }
  return Status();
}

Result<PullRecords::Record> PullRecords::parse(std::string_view text) {
  auto json = kube::parse_json(text, {.max_depth = 8});
  if (!json.ok()) return json.error();
  if (!json->is_object()) return invalid_argument("an object is expected");
  Record out;
  out.salt = kube::get_string(*json, "salt");
  const kube::JsonArray* images = kube::get_array(*json, "images");
  if (out.salt.empty() || images == nullptr) return invalid_argument("salt and images are expected");
  for (const kube::Json& image : *images) {
    if (!image.is_object()) return invalid_argument("images: objects are expected");
    Access& access = out.images[std::string(kube::get_string(image, "image"))];
    access.everybody = kube::get_bool(image, "everybody");
    const kube::JsonArray* secrets = kube::get_array(image, "secrets");
    for (size_t i = 0; secrets != nullptr && i < secrets->size(); ++i) {
      const kube::Json& s = (*secrets)[i];
      if (!s.is_object()) return invalid_argument("secrets: objects are expected");
      access.secrets.push_back({{std::string(kube::get_string(s, "namespace")),
                                 std::string(kube::get_string(s, "name")), std::string(kube::get_string(s, "uid"))},
                                std::string(kube::get_string(s, "hash"))});
    }
  }
  return out;
}

std::string PullRecords::text_of(const Record& record) {
  kube::JsonArray images;
  for (const auto& [name, access] : record.images) {
    kube::JsonArray secrets;
    for (const Known& k : access.secrets)
      secrets.emplace_back(
          kube::JsonObject{{"namespace", k.id.ns}, {"name", k.id.name}, {"uid", k.id.uid}, {"hash", k.hash}});
    images.emplace_back(
        kube::JsonObject{{"image", name}, {"everybody", access.everybody}, {"secrets", std::move(secrets)}});
  }
  return kube::to_json(kube::JsonObject{{"salt", record.salt}, {"images", std::move(images)}}) + "\n";
}

void PullRecords::write(const std::string& config, const std::string& text) const {
  const std::string path = fmt::format("{}/{}.json", folder_, hex_of(config));
  Status s = write_file(path + ".new", text, 0600, true);
  if (s.ok() && rename((path + ".new").c_str(), path.c_str()) != 0) s = system_status(path, errno);
  if (!s.ok()) log_warn("image", "who pulled an image is not written down: " + s.message());
}

// Empty: the secret has no user for the image's registry.
std::string PullRecords::hash_of(const Record& record, const Reference& image, const PodSecret& secret) {
  const auto user = secret.config.find(image.registry, image.api_host());
  if (!user) return {};
  return sha256_hex(record.salt + '\0' + user->user + '\0' + user->password);
}

// With mutex_ held.
bool PullRecords::must_verify(const Reference& image, const std::string& config) const {
  switch (rules_.policy) {
    case VerificationPolicy::kNeverVerify: return false;
    case VerificationPolicy::kAlwaysVerify: return true;
    case VerificationPolicy::kNeverVerifyPreloadedImages:
      return records_.contains(config) || on_way_.count(image.to_string()) > 0;
    case VerificationPolicy::kNeverVerifyAllowlistedImages: break;
  }
  const std::string name = repository_of(image);
  return std::none_of(rules_.allowed.begin(), rules_.allowed.end(), [&](std::string_view entry) {
    return entry.ends_with("/*") ? name.starts_with(entry.substr(0, entry.size() - 1)) : name == entry;
  });
}

bool PullRecords::open_to_all(const Reference& image, const ImageRecord& record) const {
  const std::lock_guard lock(mutex_);
  if (!must_verify(image, record.config)) return true;
  const auto it = records_.find(record.config);
  if (it == records_.end()) return false;
  const auto access = it->second.images.find(repository_of(image));
  return access != it->second.images.end() && access->second.everybody;
}

// One that has the same credentials, or is the same Secret (its password was changed), may.
bool PullRecords::open_to(const Reference& image, const ImageRecord& record, const std::vector<PodSecret>& secrets) {
  const std::lock_guard lock(mutex_);
  if (!must_verify(image, record.config)) return true;
  const auto it = records_.find(record.config);
  if (it == records_.end()) return false;
  const auto found = it->second.images.find(repository_of(image));
  if (found == it->second.images.end()) return false;
  Access& access = found->second;
  if (access.everybody) return true;
  for (const PodSecret& secret : secrets) {
    const std::string hash = hash_of(it->second, image, secret);
    if (hash.empty()) continue;
    const auto same = std::find_if(access.secrets.begin(), access.secrets.end(),
                                   [&](const Known& k) { return k.hash == hash || k.id == secret.id; });
    if (same == access.secrets.end()) continue;
    const bool known = std::any_of(access.secrets.begin(), access.secrets.end(),
                                   [&](const Known& k) { return k.hash == hash && k.id == secret.id; });
    // It counts from now on; written down with the next pull, this is no time to write.
    if (!known && access.secrets.size() < kMaxSecrets) {
      std::erase_if(access.secrets, [&](const Known& k) { return k.id == secret.id; });
      access.secrets.push_back({secret.id, hash});
    }
    return true;
  }
  return false;
}

void PullRecords::begun(const Reference& image) {
  const std::string name = image.to_string();
  const std::lock_guard files(files_mutex_);
  {
    const std::lock_guard lock(mutex_);
    on_way_.insert(name);
  }
  const std::string path = fmt::format("{}/{}{}", folder_, kOnWay, sha256_hex(name));
  if (Status s = write_file(path, name, 0600, true); !s.ok())
    log_warn("image", "that an image is pulled is not written down: " + s.message());
}

void PullRecords::ended(const std::string& image) {
  bool last = false;
  {
    const std::lock_guard lock(mutex_);
    const auto it = on_way_.find(image);
    if (it != on_way_.end()) on_way_.erase(it);
    last = on_way_.count(image) == 0;
  }
  if (last) unlink(fmt::format("{}/{}{}", folder_, kOnWay, sha256_hex(image)).c_str());
}

void PullRecords::failed(const Reference& image) {
  const std::lock_guard files(files_mutex_);
  ended(image.to_string());
}

void PullRecords::pulled(const Reference& image, const ImageRecord& record, const PodSecret* secret) {
  const std::lock_guard files(files_mutex_);
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    Record& r = records_[record.config];
    if (r.salt.empty()) r.salt = new_salt();
    Access& access = r.images[repository_of(image)];
    if (secret == nullptr) {
      access = {true, {}};
    } else if (!access.everybody) {
      std::erase_if(access.secrets, [&](const Known& k) { return k.id == secret->id; });
      if (access.secrets.size() < kMaxSecrets) access.secrets.push_back({secret->id, hash_of(r, image, *secret)});
    }
    text = text_of(r);
  }
  write(record.config, text);
  ended(image.to_string());
}

void PullRecords::forget(const std::string& config) {
  const std::lock_guard files(files_mutex_);
  {
    const std::lock_guard lock(mutex_);
    if (records_.erase(config) == 0) return;
  }
  unlink(fmt::format("{}/{}.json", folder_, hex_of(config)).c_str());
}

}  // namespace ghostfleet::image
