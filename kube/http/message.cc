#include "kube/http/message.h"

namespace ghostfleet::kube::http {

HeaderList& HeaderList::operator=(const HeaderList& other) {
  if (this != &other) {
    items_.assign(other.begin(), other.end());
    size_ = other.size_;
  }
  return *this;
}

HeaderList& HeaderList::operator=(HeaderList&& other) noexcept {
  items_ = std::move(other.items_);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

void HeaderList::add(std::string name, std::string value) {
  if (size_ < items_.size()) {
    items_[size_].first = std::move(name);
    items_[size_].second = std::move(value);
  } else {
    items_.emplace_back(std::move(name), std::move(value));
  }
  ++size_;
}

void HeaderList::append(std::string_view name, std::string_view value) {
  if (size_ == items_.size()) items_.emplace_back();
  items_[size_].first.assign(name);
  items_[size_].second.assign(value);
  ++size_;
}

void HeaderList::set(std::string_view name, std::string value) {
  size_t kept = 0;
  bool placed = false;
  for (size_t i = 0; i < size_; ++i) {
    const bool same = items_[i].first == name;
    if (same && placed) continue;
    if (same) items_[i].second = std::move(value);
    placed = placed || same;
    if (kept != i) std::swap(items_[kept], items_[i]);
    ++kept;
  }
  size_ = kept;
  if (!placed) add(std::string(name), std::move(value));
}

const std::string* HeaderList::find(std::string_view name) const {
  for (const Item& item : *this) {
    if (item.first == name) return &item.second;
  }
  return nullptr;
}

std::string_view HeaderList::get(std::string_view name) const {
  const std::string* value = find(name);
  return value ? std::string_view(*value) : std::string_view();
}

std::string_view Request::path() const {
  const std::string_view text = target;
  return text.substr(0, text.find('?'));
}

std::string_view Request::query() const {
  const size_t at = target.find('?');
  return at == std::string::npos ? std::string_view() : std::string_view(target).substr(at + 1);
}

namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool unreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

}  // namespace

std::string percent_decode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 && hex_digit(text[i + 2]) >= 0) {
      out += static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]));
      i += 2;
    } else {
      out += c == '+' && plus_is_space ? ' ' : c;
    }
  }
  return out;
}

std::string percent_encode(std::string_view text) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size() + 8);
  for (const char c : text) {
    if (unreserved(c)) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += '%';
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> parse_query(std::string_view query) {
  std::vector<std::pair<std::string, std::string>> out;
  while (!query.empty()) {
    const size_t end = query.find('&');
    const std::string_view item = query.substr(0, end);
    query = end == std::string_view::npos ? std::string_view() : query.substr(end + 1);
    if (item.empty()) continue;
    const size_t equals = item.find('=');
    const std::string_view value = equals == std::string_view::npos ? std::string_view() : item.substr(equals + 1);
    out.emplace_back(percent_decode(item.substr(0, equals), true), percent_decode(value, true));
  }
  return out;
}

}  // namespace ghostfleet::kube::http
