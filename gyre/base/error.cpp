// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/error.hpp>

#include <cerrno>
#include <cstdio>
#include <system_error>

namespace gyre::detail {

void throw_system_error(int error, const char* call) {
  throw std::system_error{error, std::system_category(), call};
}

void throw_errno(const char* call) { throw_system_error(errno, call); }

void report_exception(const std::exception_ptr& error, const char* where) noexcept {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    std::fprintf(stderr, "gyre: an exception %s: %s\n", where, known.what());
  } catch (...) {
    std::fprintf(stderr, "gyre: an exception of unknown type %s\n", where);
  }
}

void terminate_with(const std::exception_ptr& error, const char* where) noexcept {
  report_exception(error, where);
  std::terminate();
}

}  // namespace gyre::detail
