// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/column_value.hpp>

#include <gyre/engines/postgres/error.hpp>

namespace gyre::postgres {

std::string column_value::describe() const {
  return "column " + std::to_string(column_.number) + " \"" + std::string(column_.name) + "\" (" +
         type_name(column_.type) + ')';
}

void column_value::throw_null() const { detail::throw_error(errc::null_value, describe()); }

void column_value::throw_unsupported(std::string_view name) const {
  if (is_null_) throw_null();
  detail::throw_error(errc::unsupported_type, describe() + " as " + std::string(name));
}

void column_value::throw_out_of_range(std::string_view value) const {
  detail::throw_error(errc::out_of_range, describe() + ": " + std::string(value));
}

void column_value::throw_malformed() const {
  detail::throw_error(errc::malformed_value,
                      describe() + ", " + std::to_string(bytes_.size()) + " bytes");
}

}  // namespace gyre::postgres
