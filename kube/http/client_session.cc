#include "kube/http/client_session.h"

namespace ghostfleet::kube::http {

void ClientCall::store(std::string_view method, std::string_view target, const HeaderList* headers,
                       std::string_view body) {
  memory.clear();
  header_sizes.clear();
  memory.append(method).append(target);
  method_size = static_cast<uint32_t>(method.size());
  target_size = static_cast<uint32_t>(target.size());
  if (headers) {
    for (const auto& [name, value] : *headers) {
      memory.append(name).append(value);
      header_sizes.emplace_back(name.size(), value.size());
    }
  }
  memory.append(body);
  body_size = static_cast<uint32_t>(body.size());
  stream = 0;
  body_sent = 0;
  head_seen = ended = false;
}

void CallList::push_back(ClientCall* call) {
  call->prev = last_;
  call->next = nullptr;
  if (last_)
    last_->next = call;
  else
    first_ = call;
  last_ = call;
  ++size_;
}

void CallList::remove(ClientCall* call) {
  if (call->prev)
    call->prev->next = call->next;
  else
    first_ = call->next;
  if (call->next)
    call->next->prev = call->prev;
  else
    last_ = call->prev;
  call->prev = call->next = nullptr;
  --size_;
}

}  // namespace ghostfleet::kube::http
