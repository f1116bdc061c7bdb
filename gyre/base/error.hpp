// SPDX-License-Identifier: Apache-2.0
//
// How failed system calls become exceptions, and how exceptions that nobody handles end.
#pragma once

#include <exception>

namespace gyre::detail {

/// Throws std::system_error for the system's error number `error`, with the name of the call that
/// failed in front of its message.
[[noreturn, gnu::cold]] void throw_system_error(int error, const char* what);

/// The same for the error number in errno.
[[noreturn, gnu::cold]] void throw_errno(const char* what);

/// Prints what `error` says, "an exception `where`: …", and terminates the program.
[[noreturn, gnu::cold]] void terminate_with(const std::exception_ptr& error,
                                            const char* where) noexcept;

}  // namespace gyre::detail
