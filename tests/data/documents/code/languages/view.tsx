const a = <b/>
