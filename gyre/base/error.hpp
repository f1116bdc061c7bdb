// SPDX-License-Identifier: Apache-2.0
//
// How failed system calls become exceptions.
#pragma once

namespace gyre::detail {

/// Throws std::system_error for the system's error number `error`, with the name of the call that
/// failed in front of its message.
[[noreturn, gnu::cold]] void throw_system_error(int error, const char* what);

/// The same for the error number in errno.
[[noreturn, gnu::cold]] void throw_errno(const char* what);

}  // namespace gyre::detail
