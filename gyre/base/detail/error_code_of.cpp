// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/detail/error_code_of.hpp>

#include <new>

namespace gyre::detail {

[[gnu::cold]] std::error_code error_code_of(const std::exception_ptr& error,
                                            std::error_code other) noexcept {
  try {
    std::rethrow_exception(error);
  } catch (const std::system_error& failure) {
    return failure.code();
  } catch (const std::bad_alloc&) {
    return std::make_error_code(std::errc::not_enough_memory);
  } catch (...) {
    return other;
  }
}

}  // namespace gyre::detail
