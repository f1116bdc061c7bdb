// SPDX-License-Identifier: Apache-2.0
//
// How failed system calls become exceptions.
#include <gyre/base/error.hpp>

#include <cerrno>
#include <system_error>

namespace gyre::detail {

void throw_system_error(int error, const char* what) {
  throw std::system_error{error, std::system_category(), what};
}

void throw_errno(const char* what) { throw_system_error(errno, what); }

}  // namespace gyre::detail
