// SPDX-License-Identifier: Apache-2.0
#include <gyre/tls/detail/ticket_keys.hpp>

#include <openssl/rand.h>

#include <algorithm>

namespace gyre::tls::detail {

void ticket_keys::drop_expired_keys(steady_time current_time) noexcept {
  std::erase_if(keys_,
                [&](const ticket_key& key) { return current_time - key.birth_time >= lifetime_; });
}

std::optional<ticket_key> ticket_keys::newest(steady_time current_time) {
  const std::scoped_lock lock(mutex_);
  drop_expired_keys(current_time);
  if (!keys_.empty() && current_time - keys_.back().birth_time < lifetime_ / 2) return keys_.back();
  ticket_key key{};
  key.birth_time = current_time;
  for (const std::span<unsigned char> part :
       {std::span<unsigned char>(key.name), std::span<unsigned char>(key.cipher),
        std::span<unsigned char>(key.mac)}) {
    if (RAND_bytes(part.data(), static_cast<int>(part.size())) != 1) return std::nullopt;
  }
  keys_.push_back(key);
  return key;
}

std::optional<ticket_keys::found_key> ticket_keys::find(std::span<const unsigned char> name,
                                                        steady_time current_time) {
  const std::scoped_lock lock(mutex_);
  drop_expired_keys(current_time);
  for (const ticket_key& key : keys_) {
    if (std::ranges::equal(key.name, name)) {
      const bool is_newest = &key == &keys_.back() && current_time - key.birth_time < lifetime_ / 2;
      return found_key{key, is_newest};
    }
  }
  return std::nullopt;
}

}  // namespace gyre::tls::detail
