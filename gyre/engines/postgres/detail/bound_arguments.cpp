// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/detail/bound_arguments.hpp>

#include <gyre/engines/postgres/error.hpp>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace gyre::postgres::detail {

argument_writer argument_sequence::next() noexcept {
  const std::size_t index = index_++;
  return {output_, types_[index], index + 1, target_, formats_ + sizeof(std::uint16_t) * index};
}

void argument_sequence::throw_not_one(std::size_t count) {
  throw std::logic_error("gyre::postgres::argument_traits: write() has written " +
                         std::to_string(count) + " values instead of one");
}

void argument_list::write(io::buffer& output, std::span<const oid> types) const {
  if (types.size() != size()) {
    throw_error(errc::argument_count, std::to_string(size()) + " arguments for " +
                                          std::to_string(types.size()) + " parameters");
  }
  output.append(static_cast<std::uint16_t>(size()));
  const std::size_t formats = output.size();
  for (std::size_t i = 0; i < size(); ++i) output.append(std::uint16_t{0});
  output.append(static_cast<std::uint16_t>(size()));
  argument_sequence sequence(output, types, argument_writer::write_target::parameter, formats);
  add_all(sequence);
}

}  // namespace gyre::postgres::detail
