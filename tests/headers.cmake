# Every header of src/ compiles alone: one translation unit a header, which includes nothing else.
# They are built with the tests, so a header that leans on its includer's includes stops the build.
file(GLOB_RECURSE headers RELATIVE ${PROJECT_SOURCE_DIR}/src CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.h)
set(units)
foreach(header ${headers})
  string(REPLACE "/" "_" unit ${header})
  set(unit ${CMAKE_CURRENT_BINARY_DIR}/headers/${unit}.cpp)
  file(CONFIGURE OUTPUT ${unit} CONTENT "#include \"${header}\"  // IWYU pragma: keep\n")
  list(APPEND units ${unit})
endforeach()
add_library(zplan_headers OBJECT ${units})
target_include_directories(zplan_headers PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(zplan_headers PRIVATE zplan_options nlohmann_json::nlohmann_json Eigen3::Eigen CLI11::CLI11)
