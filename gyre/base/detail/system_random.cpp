// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/detail/system_random.hpp>

#include <gyre/base/detail/retry_interrupted.hpp>

#include <sys/random.h>

#include <cerrno>
#include <system_error>

namespace gyre::detail {

int fill_with_random(std::span<std::byte> bytes) noexcept {
  const auto count = retry_interrupted([&] { return ::getrandom(bytes.data(), bytes.size(), 0); });
  return count < 0 ? errno : 0;
}

void require_random(std::span<std::byte> bytes, const char* owner) {
  const int error = fill_with_random(bytes);
  if (error != 0) throw std::system_error(error, std::generic_category(), owner);
}

}  // namespace gyre::detail
