// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/file.hpp>

#include <fcntl.h>

namespace gyre::io::detail {

int flags_of(const open_options& options) noexcept {
  if ((!options.read && !options.write) || (options.truncate && !options.write)) return 0;
  int flags = O_CLOEXEC | (!options.write ? O_RDONLY : options.read ? O_RDWR : O_WRONLY);
  if (options.create) flags |= O_CREAT;
  if (options.create_new) flags |= O_CREAT | O_EXCL;
  if (options.truncate) flags |= O_TRUNC;
  if (options.append) flags |= O_APPEND;
  return flags;
}

}  // namespace gyre::io::detail
