// The versions that the library was compiled for. sluice.tensorflow looks for this text before it
// loads the library: TensorFlow's binary interface changes from version to version, and the
// attributes that sluice.tensorflow gives the ops are those of its own version.
extern "C" __attribute__((used, visibility("default"))) const char sluice_tensorflow_versions[] =
    "sluice_tensorflow built for TensorFlow " SLUICE_TENSORFLOW_VERSION
    " and Sluice " SLUICE_VERSION;
