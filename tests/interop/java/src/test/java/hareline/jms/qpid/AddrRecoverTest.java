package hareline.jms.qpid;

/** {@link RecoverCases} with destinations in ADDR syntax. */
class AddrRecoverTest extends RecoverCases {
  @Override
  protected Syntax syntax() {
    return Syntax.ADDR;
  }
}
