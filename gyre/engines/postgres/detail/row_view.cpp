// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/detail/row_view.hpp>

#include <gyre/engines/postgres/detail/body_reader.hpp>

namespace gyre::postgres::detail {

std::optional<row_view> row_view::parse(std::span<const std::byte> body) noexcept {
  body_reader reader(body);
  const auto count = reader.read<std::uint16_t>();
  const std::span<const std::byte> values = reader.left();
  for (std::size_t index = 0; index < count && reader.is_good(); ++index) {
    const auto size = reader.read<std::int32_t>();
    if (size < -1) return std::nullopt;
    if (size > 0) reader.bytes(static_cast<std::size_t>(size));
  }
  if (!reader.is_complete()) return std::nullopt;
  return row_view(count, values);
}

}  // namespace gyre::postgres::detail
