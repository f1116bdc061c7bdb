// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/detail/cancelled.hpp>

namespace gyre::detail {

void throw_cancelled() { throw_error(std::errc::operation_canceled); }

void throw_error(std::errc error) { throw std::system_error(std::make_error_code(error)); }

bool is_cancelled(const std::exception_ptr& error) noexcept {
  try {
    if (error != nullptr) std::rethrow_exception(error);
  } catch (const std::system_error& failure) {
    return is_cancelled(failure);
  } catch (...) {
    return false;
  }
  return false;
}

}  // namespace gyre::detail
