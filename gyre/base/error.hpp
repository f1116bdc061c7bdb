// SPDX-License-Identifier: Apache-2.0
// throw_system_error, terminate_with: failed system calls as exceptions, and unhandled exceptions.
#pragma once

#include <exception>

namespace gyre::detail {

/// Throws std::system_error for the error number `error`, with the failed `call` in its message.
[[noreturn, gnu::cold]] void throw_system_error(int error, const char* call);

/// As throw_system_error(errno, call).
[[noreturn, gnu::cold]] void throw_errno(const char* call);

/// Prints "gyre: an exception WHERE: MESSAGE" to stderr, with WHERE such as "left the main task".
[[gnu::cold]] void report_exception(const std::exception_ptr& error, const char* event) noexcept;

/// As report_exception(), and calls std::terminate().
[[noreturn, gnu::cold]] void terminate_with(const std::exception_ptr& error,
                                            const char* event) noexcept;

}  // namespace gyre::detail
