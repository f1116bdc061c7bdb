// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/mapped_file.hpp>

#include <gyre/base/detail/system_memory.hpp>
#include <gyre/base/error.hpp>
#include <gyre/io/detail/system_files.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

namespace gyre::io {
namespace {

int number_of(mapping_advice advice) noexcept {
  switch (advice) {
    case mapping_advice::normal: return MADV_NORMAL;
    case mapping_advice::sequential: return MADV_SEQUENTIAL;
    case mapping_advice::random: return MADV_RANDOM;
    case mapping_advice::will_need: return MADV_WILLNEED;
  }
  std::unreachable();
}

}  // namespace

mapped_file::mapped_file(const file& source, mapping_options options) {
  if (const int error = map(source.fd(), options); error != 0) {
    gyre::detail::throw_system_error(error, "map");
  }
}

// O_NONBLOCK keeps the open of a FIFO from waiting for the other end.
detail::outcome_of<mapped_file> mapped_file::open_now(const std::string& path,
                                                      const mapping_options& options) {
  const auto fd = detail::system::open(path.c_str(), O_RDONLY | O_NONBLOCK);
  if (!fd) return detail::failure_of(fd.error());
  mapped_file result;
  const int error = result.map(fd->get(), options);
  if (error != 0) return detail::failure_of(error);
  return result;
}

int mapped_file::map(int fd, const mapping_options& options) noexcept {
  const auto status = detail::system::status_of(fd, STATX_TYPE | STATX_SIZE);
  if (!status) return status.error();
  if (!S_ISREG(status->stx_mode)) return S_ISDIR(status->stx_mode) ? EISDIR : ENODEV;
  const std::uint64_t rest =
      status->stx_size - std::min<std::uint64_t>(options.offset, status->stx_size);
  const std::uint64_t size = std::min<std::uint64_t>(rest, options.size);
  if (size == 0) return 0;
  const std::uint64_t page_offset = options.offset % gyre::detail::page_size();
  if (page_offset + size > std::uint64_t{std::numeric_limits<std::ptrdiff_t>::max()}) return EFBIG;
  const auto mapping = detail::system::map(fd, static_cast<std::size_t>(page_offset + size),
                                           options.offset - page_offset);
  if (!mapping) return mapping.error();
  mapping_ = *mapping;
  bytes_ = mapping_.subspan(static_cast<std::size_t>(page_offset));
  if (options.advice != mapping_advice::normal) advise(options.advice);
  return 0;
}

void mapped_file::advise(mapping_advice advice) noexcept {
  if (!mapping_.empty()) detail::system::advise(mapping_, number_of(advice));
}

void mapped_file::unmap() noexcept {
  if (!mapping_.empty()) detail::system::unmap(mapping_);
}

}  // namespace gyre::io
