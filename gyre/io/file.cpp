// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/file.hpp>

#include <fcntl.h>

namespace gyre::io::detail {

int flags_of(const open_options& how) noexcept {
  if ((!how.read && !how.write) || (how.truncate && !how.write)) return 0;
  int flags = O_CLOEXEC | (!how.write ? O_RDONLY : how.read ? O_RDWR : O_WRONLY);
  if (how.create) flags |= O_CREAT;
  if (how.create_new) flags |= O_CREAT | O_EXCL;
  if (how.truncate) flags |= O_TRUNC;
  if (how.append) flags |= O_APPEND;
  return flags;
}

}  // namespace gyre::io::detail
