// SPDX-License-Identifier: Apache-2.0
// oid: the number by which PostgreSQL names a type, and the numbers of its built-in types.
#pragma once

#include <cstdint>
#include <string>

namespace gyre::postgres {

/// The number of a type (pg_type.oid). Types that a database defines itself, such as enumerations,
/// have numbers of 16384 and more, which differ from database to database.
using oid = std::uint32_t;

/// The numbers of built-in types.
namespace oids {

/// The types that gyre reads and writes by itself, by their names in PostgreSQL.
inline constexpr oid boolean = 16;
inline constexpr oid bytea = 17;
inline constexpr oid name = 19;
inline constexpr oid int8 = 20;
inline constexpr oid int2 = 21;
inline constexpr oid int4 = 23;
inline constexpr oid text = 25;
inline constexpr oid object_id = 26;
inline constexpr oid xid = 28;
inline constexpr oid json = 114;
inline constexpr oid xml = 142;
inline constexpr oid float4 = 700;
inline constexpr oid float8 = 701;
inline constexpr oid unknown = 705;
inline constexpr oid inet = 869;
inline constexpr oid bpchar = 1042;  ///< char(n)
inline constexpr oid varchar = 1043;
inline constexpr oid date = 1082;
inline constexpr oid time = 1083;
inline constexpr oid timestamp = 1114;
inline constexpr oid timestamptz = 1184;
inline constexpr oid interval = 1186;
inline constexpr oid numeric = 1700;
inline constexpr oid uuid = 2950;
inline constexpr oid jsonb = 3802;

}  // namespace oids

/// The first number of types that are not built in.
inline constexpr oid first_user_type = 16384;

/// The type's name, such as "int4"; "type 16412" for a number that is not among `oids` or their
/// arrays.
std::string type_name(oid type);

namespace detail {

/// The type of the elements of an array of a built-in type; 0 for other types.
oid element_type(oid array) noexcept;

/// Whether values of a type have the same bytes in text and in binary format: texts, and types that
/// are not built in, of which enumerations do.
bool is_text_type(oid type) noexcept;

}  // namespace detail

}  // namespace gyre::postgres
