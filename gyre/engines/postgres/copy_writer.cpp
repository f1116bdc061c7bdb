// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/copy_writer.hpp>

#include <gyre/engines/postgres/detail/copy_request.hpp>

namespace gyre::postgres {

task<> copy_writer::write(std::span<const std::byte> bytes) {
  return detail::copy_request::write(request_, bytes);
}

task<std::uint64_t> copy_writer::finish() { return detail::copy_request::finish(request_); }

}  // namespace gyre::postgres
