// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/detail/duration_check.hpp>

#include <stdexcept>
#include <string>

namespace gyre::detail {
namespace {

[[noreturn, gnu::cold]] void refuse(duration length, std::string_view name,
                                    const char* requirement) {
  throw std::invalid_argument(
      std::string(name).append(" is ").append(std::to_string(length.count())).append(requirement));
}

}  // namespace

void require_positive(duration length, std::string_view name) {
  if (length <= duration::zero()) refuse(length, name, " ns; it must be positive");
}

void require_not_negative(duration length, std::string_view name) {
  if (length < duration::zero()) refuse(length, name, " ns; it must not be negative");
}

}  // namespace gyre::detail
