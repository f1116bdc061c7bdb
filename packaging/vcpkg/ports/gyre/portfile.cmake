# SPDX-License-Identifier: Apache-2.0
# An overlay port: it builds the source tree that it stands in.
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../../.." ABSOLUTE)

vcpkg_check_features(OUT_FEATURE_OPTIONS feature_options
  FEATURES
    io GYRE_WITH_IO
    net GYRE_WITH_NET
    tls GYRE_WITH_TLS
    http GYRE_WITH_HTTP
    redis GYRE_WITH_REDIS
    nats GYRE_WITH_NATS
    postgres GYRE_WITH_POSTGRES
    work GYRE_WITH_WORK
    testing GYRE_WITH_TESTING)

if("io" IN_LIST FEATURES)
  vcpkg_find_acquire_program(PKGCONFIG)
  list(APPEND feature_options "-DPKG_CONFIG_EXECUTABLE=${PKGCONFIG}")
endif()

vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS
    ${feature_options}
    -DGYRE_BUILD_TESTS=OFF
    -DGYRE_BUILD_LAB=OFF
    -DGYRE_BUILD_EXAMPLES=OFF
    -DGYRE_INSTALL=ON
    # Debug and Release share the headers, so the layout of coroutines must be the same.
    -DGYRE_ASYNC_BACKTRACE=NEVER
  MAYBE_UNUSED_VARIABLES PKG_CONFIG_EXECUTABLE)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/gyre)
vcpkg_fixup_pkgconfig()

file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")

file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
