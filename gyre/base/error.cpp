// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/error.hpp>

#include <cerrno>
#include <cstdio>
#include <system_error>

namespace gyre::detail {

void throw_system_error(int error, const char* function_name) {
  throw std::system_error{error, std::system_category(), function_name};
}

void throw_errno(const char* function_name) { throw_system_error(errno, function_name); }

void report_exception(const std::exception_ptr& error, const char* event) noexcept {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    std::fprintf(stderr, "gyre: an exception %s: %s\n", event, exception.what());
  } catch (...) {
    std::fprintf(stderr, "gyre: an exception of unknown type %s\n", event);
  }
}

void terminate_with(const std::exception_ptr& error, const char* event) noexcept {
  report_exception(error, event);
  std::terminate();
}

}  // namespace gyre::detail
