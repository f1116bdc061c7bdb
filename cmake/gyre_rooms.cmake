# SPDX-License-Identifier: Apache-2.0
# The rooms of this build. A program that only wants coroutines builds gyre with GYRE_WITH_IO=OFF,
# and then needs no library but the standard one.
#
#   GYRE_WITH_IO        descriptors, files, processes, and loops' pollers; whole programs; liburing
#   GYRE_WITH_NET       sockets, servers, names of hosts; c-ares
#   GYRE_WITH_TLS       TLS; OpenSSL
#   GYRE_WITH_HTTP      HTTP; zlib, Brotli, Zstandard, and nghttp2 where it is installed
#   GYRE_WITH_REDIS, GYRE_WITH_POSTGRES, GYRE_WITH_WORK
#                       clients of engines, and durable jobs
#   GYRE_WITH_NATS      the same for NATS; nlohmann/json, only to build it
#   GYRE_WITH_TESTING   tools for tests of programs that use gyre
#
# Each is ON, OFF, or AUTO, the default. AUTO builds the room if the rooms that it needs are built,
# and `nats` only if nlohmann/json is installed. ON is an error where something is missing.

# gyre_room_option(ROOM [NEEDS room…]): decides whether this build has ROOM, and the rooms in
# gyre_rooms_built that it consists of.
function(gyre_room_option room)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "NEEDS")
  string(TOUPPER "GYRE_WITH_${room}" option)
  set(${option} AUTO CACHE STRING
    "Build the room ${room}: ON, OFF, or AUTO, if the rooms that it needs are built")
  set_property(CACHE ${option} PROPERTY STRINGS AUTO ON OFF)

  set(missing ${arg_NEEDS})
  list(REMOVE_ITEM missing ${gyre_rooms_built})
  if(missing AND ${option} AND NOT ${option} STREQUAL "AUTO")
    list(TRANSFORM missing TOUPPER)
    list(TRANSFORM missing PREPEND GYRE_WITH_)
    list(JOIN missing " and " missing)
    message(FATAL_ERROR "${option} needs ${missing}: switch that on, or ${option} off")
  endif()
  if(missing OR NOT (${option} OR ${option} STREQUAL "AUTO"))
    list(APPEND gyre_rooms_left_out ${room})
  else()
    list(APPEND gyre_rooms_built ${room})
  endif()
  set(gyre_rooms_built "${gyre_rooms_built}" PARENT_SCOPE)
  set(gyre_rooms_left_out "${gyre_rooms_left_out}" PARENT_SCOPE)
endfunction()

set(gyre_rooms_built base trace task sync metrics exec pool)
set(gyre_rooms_left_out "")
gyre_room_option(io)
gyre_room_option(net NEEDS io)
gyre_room_option(tls NEEDS net)
gyre_room_option(http NEEDS tls)
gyre_room_option(redis NEEDS tls)
gyre_room_option(nats NEEDS tls)
gyre_room_option(postgres NEEDS tls)
gyre_room_option(work NEEDS postgres)
gyre_room_option(testing NEEDS http)
# Rooms that need no library of their own have no option.
if("io" IN_LIST gyre_rooms_built)
  list(APPEND gyre_rooms_built runtime)
endif()
if("redis" IN_LIST gyre_rooms_built OR "nats" IN_LIST gyre_rooms_built OR
   "postgres" IN_LIST gyre_rooms_built)
  list(APPEND gyre_rooms_built engines)
endif()

# The tests, the examples and the lab use all rooms.
if(gyre_rooms_left_out)
  set(gyre_is_whole OFF)
  list(JOIN gyre_rooms_left_out ", " left_out)
  message(STATUS "gyre is built without the rooms: ${left_out}")
else()
  set(gyre_is_whole ON)
endif()

# gyre_require_whole(OPTION): refuses an option that needs all rooms in a build that lacks some.
function(gyre_require_whole option)
  if(${option} AND gyre_rooms_left_out)
    list(JOIN gyre_rooms_left_out ", " left_out)
    message(FATAL_ERROR
      "${option} needs all rooms, and these are switched off: ${left_out}. Set ${option}=OFF")
  endif()
endfunction()
