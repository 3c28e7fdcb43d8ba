package hareline.jms.qpid;

/** {@link BrowserCases} with destinations in BURL syntax. */
class BurlBrowserTest extends BrowserCases {
  @Override
  protected Syntax syntax() {
    return Syntax.BURL;
  }
}
