// SPDX-License-Identifier: Apache-2.0
// error_code_of: the error code of an exception, for callers that get errors as values.
//
//     on_end(error_code_of(error, std::make_error_code(std::errc::protocol_error)));
#pragma once

#include <exception>
#include <system_error>

namespace gyre::detail {

/// Returns the code of a std::system_error, std::errc::not_enough_memory for std::bad_alloc, and
/// `other` for another exception. `error` is not null.
[[nodiscard]] std::error_code error_code_of(const std::exception_ptr& error,
                                            std::error_code other = {}) noexcept;

}  // namespace gyre::detail
