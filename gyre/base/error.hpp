// SPDX-License-Identifier: Apache-2.0
// throw_system_error, terminate_with: report failed system calls as exceptions, and unhandled
// exceptions on stderr.
#pragma once

#include <exception>

namespace gyre::detail {

/// Throws std::system_error for the error number `error`, with the failed `call` in its message.
[[noreturn, gnu::cold]] void throw_system_error(int error, const char* function_name);

/// Calls throw_system_error(errno, function_name).
[[noreturn, gnu::cold]] void throw_errno(const char* function_name);

/// Prints "gyre: an exception EVENT: MESSAGE" to stderr, with an `event` such as "left the main
/// task".
[[gnu::cold]] void report_exception(const std::exception_ptr& error, const char* event) noexcept;

/// Calls report_exception() and then std::terminate().
[[noreturn, gnu::cold]] void terminate_with(const std::exception_ptr& error,
                                            const char* event) noexcept;

}  // namespace gyre::detail
