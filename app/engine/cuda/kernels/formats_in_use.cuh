// The formats that the model at hand has, for a switch: QCHAT_QUANTISED(format) or QCHAT_FLOATS(format) for each.
#if FORMATS & 1 << 0
QCHAT_FLOATS(F32)
#endif
#if FORMATS & 1 << 1
QCHAT_FLOATS(F16)
#endif
#if FORMATS & 1 << 30
QCHAT_FLOATS(BF16)
#endif
#if FORMATS & 1 << 2
QCHAT_QUANTISED(Q4_0)
#endif
#if FORMATS & 1 << 3
QCHAT_QUANTISED(Q4_1)
#endif
#if FORMATS & 1 << 6
QCHAT_QUANTISED(Q5_0)
#endif
#if FORMATS & 1 << 7
QCHAT_QUANTISED(Q5_1)
#endif
#if FORMATS & 1 << 8
QCHAT_QUANTISED(Q8_0)
#endif
#if FORMATS & 1 << 12
QCHAT_QUANTISED(Q4_K)
#endif
#if FORMATS & 1 << 13
QCHAT_QUANTISED(Q5_K)
#endif
#if FORMATS & 1 << 14
QCHAT_QUANTISED(Q6_K)
#endif
