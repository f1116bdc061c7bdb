// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/oid.hpp>

#include <array>
#include <string_view>

namespace gyre::postgres {
namespace {

struct built_in_type {
  oid type;
  oid array;
  std::string_view name;
};

constexpr std::array<built_in_type, 25> built_in_types = {{
    {oids::boolean, 1000, "bool"},
    {oids::bytea, 1001, "bytea"},
    {oids::name, 1003, "name"},
    {oids::int8, 1016, "int8"},
    {oids::int2, 1005, "int2"},
    {oids::int4, 1007, "int4"},
    {oids::text, 1009, "text"},
    {oids::object_id, 1028, "oid"},
    {oids::xid, 1011, "xid"},
    {oids::json, 199, "json"},
    {oids::xml, 143, "xml"},
    {oids::float4, 1021, "float4"},
    {oids::float8, 1022, "float8"},
    {oids::unknown, 0, "unknown"},
    {oids::inet, 1041, "inet"},
    {oids::bpchar, 1014, "char"},
    {oids::varchar, 1015, "varchar"},
    {oids::date, 1182, "date"},
    {oids::time, 1183, "time"},
    {oids::timestamp, 1115, "timestamp"},
    {oids::timestamptz, 1185, "timestamptz"},
    {oids::interval, 1187, "interval"},
    {oids::numeric, 1231, "numeric"},
    {oids::uuid, 2951, "uuid"},
    {oids::jsonb, 3807, "jsonb"},
}};

}  // namespace

std::string type_name(oid type) {
  for (const built_in_type& entry : built_in_types) {
    if (entry.type == type) return std::string(entry.name);
    if (entry.array == type && type != 0) return std::string(entry.name) + "[]";
  }
  return "type " + std::to_string(type);
}

namespace detail {

oid element_type(oid array) noexcept {
  for (const built_in_type& entry : built_in_types) {
    if (entry.array == array && array != 0) return entry.type;
  }
  return 0;
}

bool is_text_type(oid type) noexcept {
  switch (type) {
    case oids::text:
    case oids::varchar:
    case oids::bpchar:
    case oids::name:
    case oids::json:
    case oids::xml:
    case oids::unknown: return true;
    default: return type >= first_user_type;
  }
}

}  // namespace detail

}  // namespace gyre::postgres
